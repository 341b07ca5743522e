"""Tables and tensors: the one reader, the one writer, and what they share."""
