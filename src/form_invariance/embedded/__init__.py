"""The two small models that come with the package: their tokenizer, training data, training and model cards."""
