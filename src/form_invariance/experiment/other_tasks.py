"""Sizes of the tasks that are not operators."""

MOST = 40
"""Right answers wanted of a task."""
FEWEST = 20
"""With fewer right answers a task is undefined."""
TRIED, MEANS = 5, 2
"""For each wanted right answer: the largest number of prompts tried, and the prompts that give the means."""
CONTEXT = 32
"""Tokens of a window of plain text."""
