"""Dead letters: list, redrive, dismiss."""
