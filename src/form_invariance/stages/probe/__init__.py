"""Linear probes of the answer in the residual stream."""
