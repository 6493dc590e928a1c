"""Delta tables with any content: reading, appending, merging, schemas, fencing and SQL."""
