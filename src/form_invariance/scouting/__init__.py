"""Scout: find the problems and prompts that a model can do, and write a configuration (docs/extend.md)."""
