"""Overlap of the formats' best attention heads."""
