"""Real components for tests: a Kafka broker, Kafka Connect with Debezium, PostgreSQL; each a process of its own."""
