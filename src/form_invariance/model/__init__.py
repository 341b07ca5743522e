"""The language model: its files, its forward pass, and replay of the last token."""
