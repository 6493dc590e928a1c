"""What an audit compares the lake with: databases, and folders of extracts."""
