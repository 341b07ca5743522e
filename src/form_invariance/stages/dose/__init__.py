"""How much of the donor's activations transfer needs."""
