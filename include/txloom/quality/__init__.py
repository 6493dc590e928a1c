"""Rules on what is wrong, and how people see it: expectations, findings, incidents, reports; no table is read here.

Values and Arrow tables come in, verdicts, incidents and texts go out. Expectations are judged by SQL and by Great
Expectations.
"""
