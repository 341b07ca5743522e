"""Audit of the first stage where every neuron was patched."""
