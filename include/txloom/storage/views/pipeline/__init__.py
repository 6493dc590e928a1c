"""One pipeline at a glance: state, problems, runs, cuts, what waits, lag."""
