"""Approvals by a person: what they are told, what they answer, and what follows."""
