"""Expectations on published data, checked by Great Expectations; frames in, verdicts out, no table is read here."""
