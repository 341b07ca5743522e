"""Names of operators' kinds and of heuristics' families. This module imports nothing heavy."""

from functools import cache

EXPRESSIONS = {"addition": "a + b", "subtraction": "a - b", "multiplication": "a * b", "division": "a // b"}
"""The operators that the published algorithm knows."""

DIGIT = "digit"
"""The kind of an operator that asks for one digit of its answer. Result rules are then about this digit."""

MODES = ("reference", "strict")
"""Labels as published, and corrected labels. A digit has strict labels only."""

SHARED, DIRECTION, NOISE = "shared", "random_direction", "smooth_noise"
MATCHED_BASELINES = {"matched_variance": "variance", "matched_effect": "effect"}
"""Neurons that are not shared, and the value by which they are matched to the shared ones."""
BASELINES = (*MATCHED_BASELINES, DIRECTION, NOISE)
"""The populations with which the shared neurons are compared."""
POPULATIONS = {
    SHARED: "shared",
    "matched_variance": "not shared, same variance",
    "matched_effect": "not shared, same effect",
    DIRECTION: "random directions",
    NOISE: "smooth noise",
}
"""The names of all labelled populations in figures and sentences."""

MOST_BASELINES = 200
"""Largest size of a baseline in a cell: with 200, the interval of a share is ±0.07."""
SCALE_MAPS, MAPS = 3000, 12000
"""The numbers of random maps: those that give a rule's mean evidence, and those that neurons are compared with."""

FAMILIES = (
    ("both_operands_range_", "both range"),
    ("both_operands_", "both modulo"),
    ("same_operand", "identical operands"),
    ("carry_", "carry"),
    ("result_multi_value_", "multi-result"),
    ("result_value_", "result value"),
    ("result_pattern_", "result pattern"),
    ("result_range_", "result range"),
    ("result_", "result modulo"),
    ("operand_value_", "operand value"),
    ("operand_pattern_", "operand pattern"),
    ("operand_range_", "operand range"),
    ("operand_", "operand modulo"),
)


@cache
def family(name: str) -> str:
    """The family of the heuristic of this name; op1 and op2 are one family (docs/stages.md)."""
    plain = name.replace("op1_", "operand_").replace("op2_", "operand_")
    return next(label for prefix, label in FAMILIES if plain.startswith(prefix))


def of_result(name: str) -> bool:
    """Whether the heuristic of this name is read from the KV map (results), not from the K map (operands)."""
    return name.startswith("result")
