"""Floating-point operations in one cell (`workflow.job_costs`)."""

OPERATIONS = {"precision": lambda cell: 2 * cell.patches(cell.config["precision_prompts"], 1)}
