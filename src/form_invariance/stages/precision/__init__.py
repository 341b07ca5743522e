"""What a lower precision does to the ranking."""
