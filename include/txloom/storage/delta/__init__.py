"""Delta tables, whatever they hold: reading, appending, schemas, fencing, SQL."""
