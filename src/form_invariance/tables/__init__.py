"""The one reader and the one writer of tables and tensors."""
