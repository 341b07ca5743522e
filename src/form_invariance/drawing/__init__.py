"""Figures: their style, their inputs, and the command that draws them."""
