"""The model: its forward pass, replay of the last token, and reading and writing its files."""
