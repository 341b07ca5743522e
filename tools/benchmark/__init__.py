"""The speed of the stages on this machine: `PYTHONPATH=tools python -m benchmark --help`."""
