"""Census: what the model answers on the operand pool."""
