"""Names of operators' kinds and of heuristics' families; nothing heavy is imported here."""

from functools import cache

EXPRESSIONS = {"addition": "a + b", "subtraction": "a - b", "multiplication": "a * b", "division": "a // b"}
"""The operators that the published algorithm knows."""

DIGIT = "digit"
"""The kind of an operator that asks one digit of its answer, which is the result that rules speak of."""

MODES = ("reference", "strict")
"""Labels as published, and corrected ones; those of a digit are strict only."""

SHARED, DIRECTION, NOISE = "shared", "random_direction", "smooth_noise"
MATCHED_BASELINES = {"matched_variance": "variance", "matched_effect": "effect"}
"""Neurons that are not shared, and the value in which they are like the shared ones."""
BASELINES = (*MATCHED_BASELINES, DIRECTION, NOISE)
"""The neurons that are labelled: the shared ones, and what they are compared with."""
POPULATIONS = {
    SHARED: "shared",
    "matched_variance": "not shared, same variance",
    "matched_effect": "not shared, same effect",
    DIRECTION: "random directions",
    NOISE: "smooth noise",
}
"""Their names in figures and sentences."""

MOST_BASELINES = 200
"""Baselines of a kind in a cell: a share of them has an interval of 0.07 to each side."""
SCALE_MAPS, MAPS = 3000, 12000
"""Random maps that a rule's mean evidence is taken from, and random maps that neurons are compared with."""

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
    """The family of a heuristic by its name; op1 and op2 are one family (docs/stages.md)."""
    plain = name.replace("op1_", "operand_").replace("op2_", "operand_")
    return next(label for prefix, label in FAMILIES if plain.startswith(prefix))


def of_result(name: str) -> bool:
    """Whether a heuristic is read from the KV map (results), not from the K map (operands), by its name."""
    return name.startswith("result")
