"""Edits of a declaration that a cycle refuses, or has not followed yet."""
