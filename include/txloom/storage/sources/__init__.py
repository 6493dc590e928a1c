"""Where messages come from: files and Kafka, cut into splits."""
