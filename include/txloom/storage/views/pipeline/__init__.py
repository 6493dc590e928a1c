"""One pipeline: state, problems, runs, cuts, what waits, lag."""
