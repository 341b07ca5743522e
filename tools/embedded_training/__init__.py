"""Training of the models that come with the package: `PYTHONPATH=tools python -m embedded_training --help`."""
