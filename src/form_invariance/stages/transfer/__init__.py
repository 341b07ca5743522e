"""Transfer of the shared neurons' activations between formats."""
