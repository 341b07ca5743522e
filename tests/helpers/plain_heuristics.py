"""The strict scores written out with sets of pairs, a neuron at a time: what the fast scores are compared with."""

import math
from functools import cache
from itertools import chain, product

import numpy as np

from form_invariance.stages.heuristics.names import family

WIDTHS = {"multiplication": (3, 5, 10)}
RESULT_WIDTHS = {"multiplication": (10, 30, 50, 100), "division": (2, 10, 100)}
SIDES = {"op1": (0,), "op2": (1,), "both_operands": (0, 1), "result": (2,)}


def places_where(grid, sides, holds):
    """Places of the pairs whose operands or answer (`sides` of a, b, answer) all hold."""
    columns = [(grid.a, grid.b, grid.answer)[side].tolist() for side in sides]
    return frozenset(place for place, values in enumerate(zip(*columns, strict=True)) if all(map(holds, values)))


def ranges(grid):
    """(start, end) of half-open ranges of operands, and of answers."""
    most = grid.max_operand
    ends = {"addition": 2 * most, "subtraction": most, "division": most, "multiplication": 1000}
    end = ends.get(grid.kind, int(max(grid.answer)) + 1)
    widths, result = WIDTHS.get(grid.kind, (10, 30, 50, 100)), RESULT_WIDTHS.get(grid.kind, (10, 30, 50))
    operands = [(start, start + width) for width in widths for start in range(0, most, width)]
    return operands, [(start, start + width) for width in result for start in range(0, end, max(width // 3, 10))]


@cache
def wildcards(number):
    """The seven patterns of a number's three digits: a digit or an open place, at least one digit."""
    text = f"{number:03d}"
    return ["".join(c if i & (1 << j) else "." for j, c in enumerate(text)) for i in range(1, 8)]


def candidates(grid):
    """(heuristic, its places) of the strict heuristics, simpler ones first."""
    for prefix, sides in SIDES.items():
        for n in range(2, 11):
            for r in range(n):
                if prefix != "result" or grid.kind != "division":
                    yield f"{prefix}_{r}mod{n}", places_where(grid, sides, lambda value: value % n == r)
    yield "same_operand", frozenset(place for place in range(len(grid.a)) if grid.a[place] == grid.b[place])
    operands, results = ranges(grid)
    groups = product(operands, ("op1", "op2")), product(operands, ["both_operands"]), product(results, ["result"])
    for (start, end), name in chain(*groups):
        yield f"{name}_range_{start}_{end}", places_where(grid, SIDES[name], range(start, end).__contains__)
    for prefix, values in (("op1", grid.a), ("op2", grid.b), ("result", grid.answer)):
        for value in sorted(set(values.tolist())):
            yield f"{prefix}_value_{value:03d}", places_where(grid, SIDES[prefix], value.__eq__)
        for number in () if (prefix, grid.kind) == ("result", "division") else (1, 3, 4, 5):
            texts = [wildcards(value)[number] for value in values.tolist()]
            for text in sorted(set(texts)):
                yield f"{prefix}_pattern_{text}", frozenset(p for p, one in enumerate(texts) if one == text)


def strict_classes(grid):
    """Every class of five pairs or more once, under its first name, without the whole: {heuristic: places}."""
    classes, seen = {}, {frozenset(range(len(grid.a)))}
    for name, members in candidates(grid):
        if members not in seen and len(members) >= 5:
            classes[name] = members
        seen.add(members)
    return classes


def chances(values, size):
    """{place: chance to be among the top `size`} if ties are broken at random; values by place."""
    _, distinct, tied = np.unique(-np.array([*values.values()]), return_inverse=True, return_counts=True)
    left = np.maximum(size - (tied.cumsum() - tied), 0)
    return dict(zip(values, (np.minimum(left, tied) / tied)[distinct].tolist(), strict=True))


def credited(values, members, size):
    """Expected members among the top `size` if ties are broken at random."""
    found = chances(values, size)
    return sum(found[place] for place in members)


def strict_multi(grid, values):
    """{heuristic: its places} of the two to five answers of the top pairs, or {}."""
    size = min(1000, len(values) // 10)
    answers = grid.answer.tolist()
    places = {answer: frozenset(p for p, one in enumerate(answers) if one == answer) for answer in set(answers)}
    chance = chances(values, size)
    counted = {answer: sum(chance[place] for place in own) for answer, own in places.items()}
    best = sorted(counted, key=lambda answer: (-round(counted[answer], 9), answer))
    for several in range(1, min(5, len(best)) + 1):
        if sum(counted[answer] for answer in best[:several]) >= 0.95 * size - 1e-9:
            chosen = sorted(best[:several])
            members = frozenset().union(*(places[answer] for answer in chosen))
            fits = several > 1 and 5 <= len(members) < len(answers)
            return {f"result_multi_value_{several}={chosen}": members} if fits else {}
    return {}


def plain_strict(grid, classes, operand_map, result_map):
    """The strict scores of one neuron: {heuristic: (score, base rate, evidence, places, values by place)}."""
    by_operand, by_result = (dict(enumerate(one.tolist())) for one in (operand_map, result_map))
    both_ends = {name: not name.startswith("result") or "mod" in name for name in classes}
    sets = strict_multi(grid, by_result) if grid.kind == "division" else {}
    found = {}
    for name, members in {**classes, **sets}.items():
        values = by_result if name.startswith("result") else by_operand
        sides = [values, {place: -value for place, value in values.items()}][: 1 + both_ends.get(name, 0)]
        hits = [credited(side, members, len(members)) for side in sides]
        score, base = max(hits) / len(members), len(members) / len(values)
        found[name] = (score, base, plain_evidence(score, base, len(members)), members, sides[hits[-1] > hits[0]])
    return found


def plain_evidence(score, base, size):
    """Log likelihood ratio of a score above its base rate."""
    if score <= base:
        return 0.0
    rest = (1 - score) * math.log((1 - score) / (1 - base)) if score < 1 else 0
    return size * (score * math.log(score / base) + rest)


def plain_labels(found, significant, threshold):
    """The labels among the significant rules of `plain_strict`."""
    labels = {}
    rows = [name for name in significant if (found[name][0] - found[name][1]) / (1 - found[name][1]) >= threshold]
    # Ties of evidence keep the rules' order.
    for name in sorted(rows, key=lambda name: -found[name][2]):
        members, values = found[name][3:]
        others = [labels[other] for other in labels if family(other) != family(name)]
        if not others or remains(members, frozenset().union(*others), values, threshold):
            labels[name] = members
    return set(labels)


def remains(members, explained, values, threshold):
    """Whether a class stands out among the pairs that are not explained."""
    rest = {place: value for place, value in values.items() if place not in explained}
    left = members - explained
    size = len(left)
    if size < 5 or size == len(rest):
        return False
    base = size / len(rest)
    return (credited(rest, left, size) / size - base) / (1 - base) >= threshold
