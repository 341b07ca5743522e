"""Which simple rule of the operands or of the answer each neuron follows (method, section 9)."""
