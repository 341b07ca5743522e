"""Exact effects of attention heads, and what they attend to."""
