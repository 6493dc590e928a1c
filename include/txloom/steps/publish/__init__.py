"""publish, and the expectations that it depends on."""
