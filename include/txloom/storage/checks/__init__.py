"""What expectations look at, what they found, and findings."""
