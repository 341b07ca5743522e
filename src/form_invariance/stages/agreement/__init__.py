"""Agreement of the formats' heuristic families."""
