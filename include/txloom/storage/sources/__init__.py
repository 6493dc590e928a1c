"""Sources of messages: files and Kafka, cut into input splits."""
