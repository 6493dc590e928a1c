"""A first declaration out of what there is: a database's catalog, a sample of a stream, a folder of extracts.

What is known is written down, what is guessed is marked, and what only the user can know is asked.
"""
