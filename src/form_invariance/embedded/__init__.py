"""The small models that come with the package; tools/embedded_training trains them."""
