"""Lakes whose declaration is edited: its views, the edits, the removal of messages, and what must hold."""
