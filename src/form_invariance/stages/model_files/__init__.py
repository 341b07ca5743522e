"""Digests of a model's files."""
