"""Check inputs and results of expectations, and findings."""
