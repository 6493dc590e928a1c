"""GoldenGate's JSON messages."""
