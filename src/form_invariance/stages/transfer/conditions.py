"""The operand pairs of a transfer and their donors, by condition (method, sections 8, 12.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from form_invariance.experiment.neuron_sets import CIRCUIT, HALVES
from form_invariance.randomness import generator
from form_invariance.stages.dataset.pairs import without_train
from form_invariance.stages.transfer.names import BY_HALVES, CEILINGS, NO_DONOR, OTHER_NEURONS


@dataclass(frozen=True)
class Condition:
    """A donor for each target prompt, and the neurons whose activations are transferred.

    Attributes:
        name: name in the transfer table.
        targets: positions of the target prompts in their group, ascending, (n,).
        format: the donors' format.
        donors: n donor prompts; not run with `averaged`.
        donor_tokens: token ids that the donors' own runs predict, (n,); -1 with `averaged`.
        neurons: name of the transferred neurons in `neuron_sets`.
        averaged: transfer the format's mean activations in place of donors'.
    """

    name: str
    targets: np.ndarray
    format: str
    donors: list[str]
    donor_tokens: np.ndarray
    neurons: str = CIRCUIT
    averaged: bool = False

    @property
    def circuit_condition(self) -> str:
        """The name of the condition that transfers the circuit's activations from the same donors."""
        half = self.neurons.removesuffix(CIRCUIT)
        return "matched" if self.name == self.neurons else self.name.removeprefix(half)


@dataclass(frozen=True)
class Group:
    """Target prompts, and the conditions in which they run.

    Attributes:
        pairs: columns a, b, answer, prompt, answer_token; a row for each target prompt.
        conditions: conditions with different names.
        right_before: the targets' unmodified answers are right, and those that become wrong are counted.
    """

    pairs: pd.DataFrame
    conditions: list[Condition]
    right_before: bool = False


Plans = dict[tuple[str, str], list[Group]]
"""The groups of every ordered pair of formats (donor, target)."""


def pair_censuses(donor: pd.DataFrame, target: pd.DataFrame) -> pd.DataFrame:
    """The operand pairs that both censuses contain.

    Returns:
        Columns a, b, answer, and prompt, answer_token, correct, uniform, predicted_token of each census, with the
        suffix _donor or _target.
    """
    columns = ["a", "b", "answer", "prompt", "answer_token", "correct", "uniform", "predicted_token"]
    return donor[columns].merge(target[columns], on=["a", "b", "answer"], suffixes=("_donor", "_target"))


def plan(
    censuses: Mapping[str, pd.DataFrame], datasets: Sequence[pd.DataFrame], limit: int, seed: int, operator: str
) -> Plans:
    """The groups of every direction. No pair of a train set, which ranked the neurons, is a donor or a target.

    Args:
        censuses: census table of each format.
        datasets: dataset tables of all formats.
        limit: largest number of pairs of a group.
        operator: name of the operator, for the seeded choices.
    """
    return {
        (donor, target): plan_direction(
            without_train(pair_censuses(censuses[donor], censuses[target]), datasets),
            donor,
            target,
            limit,
            seed,
            operator,
        )
        for donor in censuses
        for target in censuses
        if donor != target
    }


def _sample(pairs: pd.DataFrame, size: int, rng: np.random.Generator) -> pd.DataFrame:
    return pairs.iloc[rng.permutation(len(pairs))[:size]].reset_index(drop=True)


def _other_pair(
    targets: pd.DataFrame, donors: pd.DataFrame, equal_answer: bool, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A donor for each target: with another answer, or with the same answer and another problem.

    Returns:
        Positions of the targets that have a donor, and positions of their donors.
    """
    answers = donors["answer_token_target"].to_numpy()
    operands = np.sort(donors[["a", "b"]].to_numpy(), axis=1)
    by_answer = donors.groupby("answer_token_target").indices
    positions: list[tuple[int, int]] = []
    problems = zip(targets["a"], targets["b"], targets["answer_token_target"], strict=True)
    for position, (a, b, answer) in enumerate(problems):
        if equal_answer:
            pool = by_answer.get(answer, np.empty(0, dtype=np.int64))
            pool = pool[(operands[pool] != (min(a, b), max(a, b))).any(1)]
        else:
            pool = np.flatnonzero(answers != answer)
        if len(pool):
            positions.append((position, int(pool[rng.integers(len(pool))])))
    matches = np.array(positions, dtype=np.int64).reshape(-1, 2)
    return matches[:, 0], matches[:, 1]


def _same_operands(name: str, targets: pd.DataFrame, donor: str, neurons: str = CIRCUIT) -> Condition:
    prompts, tokens = targets["prompt_donor"].tolist(), targets["predicted_token_donor"].to_numpy()
    return Condition(name, np.arange(len(targets)), donor, prompts, tokens, neurons)


def _no_donor(targets: pd.DataFrame, target: str) -> Condition:
    nothing = np.full(len(targets), -1)
    return Condition(
        NO_DONOR, np.arange(len(targets)), target, targets["prompt_target"].tolist(), nothing, averaged=True
    )


def _group(targets: pd.DataFrame, conditions: list[Condition], right_before: bool = False) -> Group:
    columns = {name: targets[f"{name}_target"] for name in ("prompt", "answer_token")}
    return Group(targets[["a", "b", "answer"]].assign(**columns), conditions, right_before)


def with_halves(plans: Plans) -> Plans:
    """Add conditions with the circuits by either half of the train prompts, which measure the rankings' noise."""

    def repeated(group: Group) -> Group:
        more = [
            replace(condition, name=half + condition.name, neurons=half + CIRCUIT)
            for condition in group.conditions
            if condition.name in BY_HALVES
            for half in HALVES
        ]
        return replace(group, conditions=[*group.conditions, *more])

    return {direction: [repeated(group) for group in groups] for direction, groups in plans.items()}


def plan_direction(
    pairs: pd.DataFrame, donor: str, target: str, limit: int, seed: int, operator: str
) -> list[Group]:
    """The groups of one direction: right in the donor's format alone, right in both, right in the target's alone.

    Only pairs that both censuses drew uniformly are targets, because rates are over targets. Any pair may be a
    donor.

    Args:
        pairs: pairs from `pair_censuses`.
        donor: the donors' format.
        target: the targets' format.
        limit: largest number of pairs of a group.
        operator: name of the operator, for the seeded choices.
    """
    rng = generator(seed, "transfer", operator, donor, target)
    right_donor, right_target = pairs["correct_donor"], pairs["correct_target"]
    uniform = pairs["uniform_donor"] & pairs["uniform_target"]
    failed = _sample(pairs[uniform & right_donor & ~right_target], limit, rng)
    both = _sample(pairs[uniform & right_donor & right_target], limit, rng)
    reverse = _sample(pairs[uniform & ~right_donor & right_target], limit, rng)

    def other_operands(
        name: str, donors: pd.DataFrame, side: str, equal_answer: bool, targets: pd.DataFrame = failed
    ) -> Condition:
        positions, donor_positions = _other_pair(targets, donors, equal_answer, rng)
        donor_rows = donors.iloc[donor_positions]
        source = donor if side == "donor" else target
        tokens = donor_rows[f"predicted_token_{side}"].to_numpy()
        return Condition(name, positions, source, donor_rows[f"prompt_{side}"].tolist(), tokens)

    return [
        _group(
            failed,
            [
                _same_operands("matched", failed, donor),
                other_operands("mismatched", failed, "donor", equal_answer=False),
                other_operands("same_answer", pairs[right_donor], "donor", equal_answer=True),
                other_operands("same_format", pairs[right_target], "target", equal_answer=False),
                _no_donor(failed, target),
                *(_same_operands(neurons, failed, donor, neurons) for neurons in (*OTHER_NEURONS, *CEILINGS)),
            ],
        ),
        _group(
            both,
            [
                _same_operands("harm_matched", both, donor),
                _same_operands("harm_random", both, donor, "random"),
                other_operands("interchange", both, "donor", equal_answer=False, targets=both),
            ],
            right_before=True,
        ),
        _group(reverse, [_same_operands("reverse", reverse, donor)], right_before=True),
    ]
