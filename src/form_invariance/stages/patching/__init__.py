"""Stage 2 of the ranking: exact indirect effects by replay."""
