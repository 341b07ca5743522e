"""The stages of the paper, a folder each."""
