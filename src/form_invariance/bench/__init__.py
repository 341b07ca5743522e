"""Benchmarks: the speed of the stages on this machine. The pipeline does not depend on them."""
