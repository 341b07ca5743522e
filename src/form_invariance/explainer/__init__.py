"""The explained page: the experiment in six steps, by one example problem, for readers who are new to it."""
