"""Change a Delta table by rewriting the files that hold changed rows, without Spark.

A merge finds the files that hold rows with one of its keys (`changed_keys`), takes those rows out of them, and writes
what becomes of them into new files, in pieces that fit into memory (`pieces`). One commit removes the files and adds
the new ones (`rewrite`). Files are read and written as Arrow (`table_files`, `data_files`).
"""
