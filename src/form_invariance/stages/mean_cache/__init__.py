"""Mean activations for the ablations."""
