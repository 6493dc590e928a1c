"""The steps: one function for each job and task, which reads tables, transforms rows and writes tables."""
