"""Debezium's messages: PostgreSQL, MySQL, SQL Server, Oracle."""
