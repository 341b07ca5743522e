"""Stage 1 of the ranking: first-order indirect effects."""
