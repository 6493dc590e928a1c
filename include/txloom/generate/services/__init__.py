"""PostgreSQL, Kafka and Kafka Connect with Debezium, each as one process: for `make up-real`, and for tests."""
