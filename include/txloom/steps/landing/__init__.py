"""land_events, and what is looked at before it."""
