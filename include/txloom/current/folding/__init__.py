"""Changes folded into rows."""
