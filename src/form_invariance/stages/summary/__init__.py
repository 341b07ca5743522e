"""The figure that compares all models."""
