"""The verdicts on a model."""
