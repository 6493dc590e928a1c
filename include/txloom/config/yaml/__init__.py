"""Reading YAML: documents with lines, environment variables, connections, ranges of tables."""
