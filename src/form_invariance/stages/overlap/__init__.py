"""Overlap of the formats' top-k neurons."""
