"""Folding changes into rows."""
