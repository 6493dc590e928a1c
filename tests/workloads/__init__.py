"""Random workloads over random schemas: a source database played in plain Python, and what it would have sent."""
