"""How fast the stages are, measured on this machine; nothing of the pipeline depends on it."""
