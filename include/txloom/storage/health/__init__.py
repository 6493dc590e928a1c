"""What is wrong with a pipeline: facts and incidents."""
