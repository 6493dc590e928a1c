"""Documents: a root with its children, and their versions."""
