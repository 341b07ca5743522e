"""Circuits of paraphrases compared with those of the templates."""
