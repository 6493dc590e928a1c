"""What tables were computed from, and since when they are complete."""
