"""Keep-only and knockout of the shared circuit."""
