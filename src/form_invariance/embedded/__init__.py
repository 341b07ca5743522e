"""The two small models that come with the package: their tokenizer, their problems, their training."""
