"""merge_current: apply history to mirrors and documents, in this process or with Spark."""
