"""Writers of generated transactions, one for each source format."""
