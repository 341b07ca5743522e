"""The stages of the experiment, a folder each."""
