"""The facts on a pipeline's health, what is remembered of them, and its recorded incidents."""
