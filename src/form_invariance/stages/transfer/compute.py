"""Cross-format transfer of the shared neurons' activations (paper, section 4.4; method, sections 8, 12.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder
from form_invariance.model.memory import replayed_rows
from form_invariance.model.readout import Readout, read_out, stack
from form_invariance.model.replay import LastTokenCache, build_cache, last_token_neurons, replay, select
from form_invariance.randomness import generator
from form_invariance.stages.run import Run


@dataclass(frozen=True)
class Condition:
    """Who gives to whom.

    Attributes:
        name: as in the table.
        targets: positions of the receiving prompts in their group, (n,).
        format: the donors' format.
        donors: prompts that give, n of them.
        donor_answers: their answers, (n,).
        random: transfer random neurons in place of the circuit's.
    """

    name: str
    targets: np.ndarray
    format: str
    donors: list[str]
    donor_answers: np.ndarray
    random: bool = False


@dataclass(frozen=True)
class Group:
    """Receiving prompts with their right answers, and the conditions that they are run in."""

    prompts: list[str]
    answers: np.ndarray
    conditions: list[Condition]


@dataclass(frozen=True)
class Shares:
    """How far each neuron moves to the donor's activation, from 0 to 1, in each of several settings.

    Attributes:
        settings: the columns that tell the settings apart, such as k; a row each.
        circuit: of the circuit's neurons, (settings, late layers, m), bool or float.
        random: of as many random ones, the same shape; in a setting without a random set none of them moves.
            None where no condition is random.
    """

    settings: pd.DataFrame
    circuit: Tensor
    random: Tensor | None = None

    def of(self, condition: Condition) -> Tensor:
        """The shares that a condition transfers."""
        if not condition.random:
            return self.circuit
        assert self.random is not None
        return self.random


@dataclass
class Transferred:
    """Readouts of one condition: before, (pairs,), and after in each setting, (settings, pairs)."""

    before: Readout
    after: Readout


def pair_censuses(donor: pd.DataFrame, target: pd.DataFrame) -> pd.DataFrame:
    """The operand pairs that both censuses hold.

    Returns:
        Columns a, b, answer, prompt_donor, correct_donor, prompt_target, correct_target.
    """
    columns = ["a", "b", "answer", "prompt", "correct"]
    return donor[columns].merge(target[columns], on=["a", "b", "answer"], suffixes=("_donor", "_target"))


def _sample(pairs: pd.DataFrame, size: int, rng: np.random.Generator) -> pd.DataFrame:
    return pairs.iloc[rng.permutation(len(pairs))[:size]].reset_index(drop=True)


def _other_pair(
    targets: pd.DataFrame, donors: pd.DataFrame, equal_answer: bool, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """For each target another operand pair among `donors`, whose answer is equal to the target's, or is not.

    Returns:
        Positions of the targets that have one, and positions of their donors.
    """
    answers = donors["answer"].to_numpy()
    operands = donors[["a", "b"]].to_numpy()
    by_answer = donors.groupby("answer").indices
    found: list[tuple[int, int]] = []
    for position, (a, b, answer) in enumerate(zip(targets["a"], targets["b"], targets["answer"], strict=True)):
        if equal_answer:
            pool = by_answer.get(answer, np.empty(0, dtype=np.int64))
            pool = pool[(operands[pool] != (a, b)).any(1)]
        else:
            pool = np.flatnonzero(answers != answer)
        if len(pool):
            found.append((position, int(pool[rng.integers(len(pool))])))
    chosen = np.array(found, dtype=np.int64).reshape(-1, 2)
    return chosen[:, 0], chosen[:, 1]


def plan_direction(pairs: pd.DataFrame, donor: str, target: str, limit: int, seed: int, name: str) -> list[Group]:
    """The groups and conditions of one direction: failed targets, and pairs right in both formats.

    Args:
        pairs: from `pair_censuses`.
        donor: format that gives.
        target: format that receives.
        limit: largest number of pairs of a group.
        name: the operator's name, for the seeded choices.
    """
    rng = generator(seed, "transfer", name, donor, target)
    right_donor, right_target = pairs["correct_donor"], pairs["correct_target"]
    failed = _sample(pairs[right_donor & ~right_target], limit, rng)
    both = _sample(pairs[right_donor & right_target], limit, rng)

    def same_operands(name: str, group: pd.DataFrame, random: bool = False) -> Condition:
        answers = group["answer"].to_numpy()
        return Condition(name, np.arange(len(group)), donor, group["prompt_donor"].tolist(), answers, random)

    def other_operands(name: str, donors: pd.DataFrame, side: str, equal_answer: bool) -> Condition:
        positions, chosen = _other_pair(failed, donors, equal_answer, rng)
        given = donors.iloc[chosen]
        source = donor if side == "donor" else target
        return Condition(name, positions, source, given[f"prompt_{side}"].tolist(), given["answer"].to_numpy())

    def group(targets: pd.DataFrame, conditions: list[Condition]) -> Group:
        return Group(targets["prompt_target"].tolist(), targets["answer"].to_numpy(), conditions)

    right_there = pairs[right_donor].reset_index(drop=True)
    right_here = pairs[right_target].reset_index(drop=True)
    return [
        group(
            failed,
            [
                same_operands("matched", failed),
                other_operands("mismatched", failed, "donor", equal_answer=False),
                same_operands("random", failed, random=True),
                other_operands("same_answer", right_there, "donor", equal_answer=True),
                other_operands("same_format", right_here, "target", equal_answer=False),
            ],
        ),
        group(both, [same_operands("harm_matched", both), same_operands("harm_random", both, random=True)]),
    ]


class Donors:
    """Last-token activations of donor prompts, each run once however many conditions use it."""

    def __init__(self, run: Run, prompts: Sequence[str]) -> None:
        """Run the prompts, which are of one length."""
        unique = sorted(set(prompts))
        self._position = {prompt: position for position, prompt in enumerate(unique)}
        self._activations = last_token_neurons(run.model, run.tokens(unique), run.first)

    def of(self, prompts: Sequence[str]) -> Tensor:
        """Activations (late layers, prompts, m)."""
        return self._activations[:, [self._position[prompt] for prompt in prompts]]


def transfer_neurons(
    model: Decoder, cache: LastTokenCache, donors: Tensor, shares: Tensor, answers: Tensor, center: bool
) -> Readout:
    """Move neurons of the target runs' last token to the donors' activations, or a part of the way.

    Args:
        cache: of the target prompts.
        donors: the donor prompts' last-token activations, (late layers, B, m).
        shares: as in `Shares`, (settings, late layers, m).
        answers: token ids of the right answers, (B,).

    Returns:
        Readout of shape (settings, B).
    """
    weights = shares.to(donors.dtype)

    def on_neurons(layer: int, post: Tensor) -> Tensor:
        late = layer - cache.first
        # (1 - weight) * post + weight * donor, without rounding at 0 and at 1.
        return torch.lerp(post, donors[late][:, None], weights[:, late])

    before = cache.residual[0][:, None].expand(-1, len(shares), -1)
    x = replay(model, cache, before, cache.first, on_neurons=on_neurons)
    return read_out(model, x.transpose(0, 1), answers, center)


@torch.no_grad()
def run_group(
    run: Run, group: Group, donors: dict[str, Donors], shares: Shares, center: bool
) -> dict[str, Transferred]:
    """Run all conditions of a group; a condition without pairs is absent from the result.

    Args:
        donors: of each format.
    """
    per_batch = max(1, replayed_rows(run.model) // max(1, len(shares.circuit)))
    results: dict[str, list[tuple[Readout, Readout]]] = {c.name: [] for c in group.conditions}
    given = {c.name: donors[c.format].of(c.donors) for c in group.conditions if c.donors}
    for start in range(0, len(group.prompts), per_batch):
        batch = slice(start, start + per_batch)
        answers = run.answer_tokens(group.answers[batch])
        cache = build_cache(run.model, run.tokens(group.prompts[batch]), run.first)
        before = read_out(run.model, cache.residual[-1], answers, center)
        for condition in group.conditions:
            rows = np.flatnonzero((condition.targets >= start) & (condition.targets < start + per_batch))
            if not len(rows):
                continue
            here = torch.from_numpy(condition.targets[rows] - start)
            moved, share = given[condition.name][:, rows], shares.of(condition)
            after = transfer_neurons(run.model, select(cache, here), moved, share, answers[here], center)
            results[condition.name].append((before[here], after))
    return {
        name: Transferred(stack([b for b, _ in parts]), stack([a for _, a in parts]))
        for name, parts in results.items()
        if parts
    }
