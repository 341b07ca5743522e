"""The figure of the prompt formats."""
