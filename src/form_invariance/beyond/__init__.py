"""Stages that the paper does not have. Each can be deleted without touching another."""
