"""The facts on a pipeline's health, and its recorded incidents."""
