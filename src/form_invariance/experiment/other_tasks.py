"""Sizes of the tasks that are not operators."""

MOST = 40
"""Right answers wanted of a task."""
FEWEST = 20
"""With fewer right answers a task is undefined."""
TRIED, MEANS = 5, 2
"""For each right answer wanted: prompts that the model answers at most, and prompts that give the means."""
CONTEXT = 32
"""Tokens of a window of plain text."""
