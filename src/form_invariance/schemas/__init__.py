"""Every table that the pipeline writes: its columns, their types and what they mean, a module for each stage."""
