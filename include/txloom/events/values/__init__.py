"""Values as sources write them, as declared types: one at a time, and whole columns at once."""
