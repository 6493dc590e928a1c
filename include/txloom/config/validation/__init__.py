"""Validation beyond single models: rules between parts of a declaration, and problems with file and line."""
