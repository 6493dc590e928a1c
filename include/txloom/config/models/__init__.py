"""The parts of a declaration, as pydantic models."""
