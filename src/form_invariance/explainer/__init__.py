"""The explained page: the experiment in five steps, by one example problem, for readers who are new to it."""
