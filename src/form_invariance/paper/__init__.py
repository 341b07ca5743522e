"""The paper's tables, for any models."""
