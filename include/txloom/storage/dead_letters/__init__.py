"""Dead letters: which are open, how they are listed, dismissed and delivered again."""
