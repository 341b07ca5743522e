"""Sizes of the tasks that are no operators."""

MOST = 40
"""Right answers wanted of a task."""
FEWEST = 20
"""With fewer right answers a task is undefined."""
TRIED, MEANS = 5, 2
"""Prompts of a task that the model answers at most, and that give the means, for each right answer wanted."""
CONTEXT = 32
"""Tokens of a window of plain text."""
