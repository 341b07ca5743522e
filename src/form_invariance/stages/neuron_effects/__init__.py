"""What each shared neuron does alone."""
