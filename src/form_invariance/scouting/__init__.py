"""Scout: which problems a model can do, with which prompts, and a configuration for them (docs/extend.md)."""
