"""The shared circuit: neurons in the top k of every format."""
