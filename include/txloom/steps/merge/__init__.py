"""merge_current: history into mirrors and documents, in this process or by Spark."""
