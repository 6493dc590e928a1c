"""What the jobs do, one function a step: read, transform, write; everything external is an argument."""
