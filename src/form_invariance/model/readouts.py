"""How the runs of a job are read out."""

from dataclasses import dataclass


@dataclass
class Readouts:
    """How a job reads out its runs, and how many it has read out."""

    full: bool = False  # each of them in full
    runs: int = 0
    in_full: int = 0
    calls: int = 0
    largest_difference: float = 0.0  # of the runs that were read out in both ways

    def __add__(self, other: "Readouts") -> "Readouts":
        """Those of two jobs together."""
        return Readouts(
            self.full,
            self.runs + other.runs,
            self.in_full + other.in_full,
            self.calls + other.calls,
            max(self.largest_difference, other.largest_difference),
        )
