"""Figures: one style, one module a figure. Each is a function from tables to a matplotlib figure."""
