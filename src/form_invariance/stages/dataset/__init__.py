"""Train and eval prompts and their corrupt partners."""
