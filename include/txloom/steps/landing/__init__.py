"""land_events, and the checks of the source before and after it."""
