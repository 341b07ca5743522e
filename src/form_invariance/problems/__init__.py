"""Operators and templates to prompts, answers and tokens."""
