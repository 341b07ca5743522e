"""The neuron browser: one static HTML page a model."""
