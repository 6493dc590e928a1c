"""What a declaration may say, as models."""
