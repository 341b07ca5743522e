"""Ground truth: a model whose circuit was built by hand, and what the pipeline finds in it."""
