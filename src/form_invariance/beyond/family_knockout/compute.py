"""Do heuristics matter causally? Neurons are knocked out where their rule holds, and where it does not.

One run of each prompt ablates the neurons of a family whose rule holds for the operands (as Nikankin et al. 2025
do). Another run ablates neurons of the same family whose rule does not hold. The two runs are paired: they have
the same prompt, the same layers and the same number of neurons. A neuron's rule holds in some prompts and not in
others. So a neuron that matters in all prompts adds nothing to the difference; a neuron that matters where its
rule holds does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.beyond.family_knockout.table import FAMILY_KNOCKOUT, LOSSES
from form_invariance.experiment.ablation import Part
from form_invariance.experiment.contrasts.engine import Pair, Value, compare, problems_of, resampled, resampling
from form_invariance.experiment.contrasts.rows import rows
from form_invariance.experiment.intervene import answer, read_replaced, start, unmodified
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.readout import Readout
from form_invariance.experiment.run import Run
from form_invariance.randomness import generator
from form_invariance.stages.dataset.pairs import without_train
from form_invariance.stages.heuristics.classes import members_of
from form_invariance.stages.heuristics.names import FAMILIES
from form_invariance.stages.heuristics.pairs import Grid, grid_prompts, take
from form_invariance.stages.mean_cache.compute import last_token_means
from form_invariance.tables.columns import ALL

TRIED = 4
"""Pairs of the grid that are tried for each eval prompt of a cell; as many other pairs give the means."""

TriedKey = tuple[str, str, str]
"""Kind of neurons, family and metric."""

_BATCH = 50


@dataclass(frozen=True)
class GridPrompts:
    """Prompts of the heuristics' grid that the unmodified model answers correctly."""

    pairs: Grid
    tokens: Tensor  # (P, T)
    answers: Tensor  # (P,): token ids
    means: MeanCache
    """The late neurons' means at the last token, over other pairs of the grid."""


@dataclass(frozen=True)
class Carriers:
    """The neurons with a label of one family, and the prompts where their rules hold."""

    family: str
    layers: np.ndarray  # (n,)
    neurons: np.ndarray  # (n,)
    matching: np.ndarray  # bool, (n, P): a rule of the family that the neuron follows holds
    not_matching: np.ndarray  # bool, (n, P): no rule that the neuron follows holds, of any family


@dataclass(frozen=True)
class Tried:
    """A family's knockout in one cell.

    Attributes:
        pair: mean loss where the rules hold, and where they do not.
        labelled: number of neurons with a label of the family.
        ablated: mean number of neurons ablated in a prompt.
    """

    pair: Pair
    labelled: int
    ablated: float


def right_prompts(
    run: Run, template: str, grid: Grid, datasets: Sequence[pd.DataFrame], prompts: int, seed: int, operator: str
) -> GridPrompts:
    """A seeded sample of the grid: in every format the same pairs, as far as they are answered correctly.

    Args:
        template: the cell's template.
        datasets: dataset tables of the operator in all formats; pairs of a train set are left out, because they
            ranked the neurons.
        prompts: number of eval prompts of a cell.

    Raises:
        UserError: the template breaks a rule; the message names `operator`.
    """
    grid_table = pd.DataFrame({"a": grid.a, "b": grid.b, "answer": grid.answer, "place": np.arange(len(grid.a))})
    pool = without_train(grid_table, datasets)
    pool = pool.iloc[generator(seed, "family-knockout", operator).permutation(len(pool))]
    half = len(pool) // 2
    parts = (part["place"].to_numpy()[: TRIED * prompts] for part in (pool[:half], pool[half:]))
    tried, others = (take(grid, places) for places in parts)
    tokens, answers = _tokens(run, template, tried, operator)
    right = answer(run, tokens, answers).correct
    means = last_token_means(run.model, _tokens(run, template, others, operator)[0], run.first)
    return GridPrompts(take(tried, right.cpu().numpy()), tokens[right], answers[right], means)


def _tokens(run: Run, template: str, pairs: Grid, operator: str) -> tuple[Tensor, Tensor]:
    """Token ids of the pairs' prompts, (P, T), and of their answers, (P,), on the model's device."""
    prompts, answers = grid_prompts(pairs, run.tokenizer, template, f"template of {operator}")
    return run.tokens(prompts), torch.from_numpy(answers).to(run.model.device)


def carriers(labels: pd.DataFrame, pairs: Grid) -> Iterator[Carriers]:
    """The carriers of each family, and of all families together.

    Args:
        labels: columns layer, neuron, heuristic and family, with a row for each label.
        pairs: the prompts' operands and answers.
    """
    holds = {name: members_of(str(name), pairs) for name in labels["heuristic"].unique()}

    def by_neuron(rows: pd.DataFrame) -> dict[tuple[int, int], np.ndarray]:
        groups = rows.groupby(["layer", "neuron"])["heuristic"]
        return {key: np.logical_or.reduce([holds[name] for name in names]) for key, names in groups}  # type: ignore[misc]

    anything = by_neuron(labels)
    present = [family for family in dict.fromkeys(name for _, name in FAMILIES) if family in set(labels["family"])]
    for family in [ALL, *present] if present else ():
        by_key = anything if family == ALL else by_neuron(labels[labels["family"] == family])
        layers, neurons = np.array(list(by_key), dtype=np.int64).T
        matching, other = np.stack(list(by_key.values())), np.stack([~anything[key] for key in by_key])
        yield Carriers(family, layers, neurons, matching, other)


def paired_sets(carriers: Carriers, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which carriers are ablated in each prompt, bool (n, P): those with a rule that holds, and those without.

    Every layer has equally many of both: all of the kind with fewer, and a random choice of the other kind.
    """
    keys = rng.random(carriers.matching.shape)
    masks = []
    for layer in np.unique(carriers.layers):
        here = carriers.layers == layer
        size = np.minimum(carriers.matching[here].sum(0), carriers.not_matching[here].sum(0))
        for members in (carriers.matching, carriers.not_matching):
            rank = np.where(members[here], keys[here], np.inf).argsort(0).argsort(0)
            kept = np.zeros_like(members)
            kept[here] = members[here] & (rank < size)
            masks.append(kept)
    return np.logical_or.reduce(masks[::2]), np.logical_or.reduce(masks[1::2])


def losses(
    run: Run, prompts: GridPrompts, sets: Sequence[tuple[Carriers, np.ndarray]], center: bool
) -> dict[str, np.ndarray]:
    """The loss by every set on each prompt, (sets, P) by metric: unmodified minus ablated.

    Args:
        sets: carriers, and which of them are ablated in each prompt, bool (n, P).
    """
    started = start(run, prompts.tokens, prompts.answers, center, _BATCH)

    def ablated(part: Part) -> Readout:
        batch = part.rows.cpu().numpy()
        masks = np.zeros((len(batch), len(sets), len(run.late), run.width), dtype=bool)
        for number, (group, members) in enumerate(sets):
            masks[:, number, group.layers - run.first, group.neurons] = members[:, batch].T
        mean_activations = prompts.means.last_token(run.first)
        sets_of = torch.from_numpy(masks).to(run.model.device)
        return read_replaced(run.model, part.last_token, part.answers, sets_of, mean_activations, center)

    with torch.no_grad():
        good, less = unmodified(started).metrics(), started.join(ablated).metrics()
    return {metric: good[metric] - less[metric] for metric in LOSSES}


def cell_pairs(
    run: Run,
    prompts: GridPrompts,
    labels: Mapping[str, pd.DataFrame],
    names: tuple[str, str],
    center: bool,
    bootstrap: int,
    seed: int,
) -> Iterator[tuple[TriedKey, Tried]]:
    """The losses by the knockouts in one cell.

    Args:
        labels: strict labels by kind of neurons, as in `carriers`.
        names: format and operator.
    """
    tried, sets = [], []
    for kind, labelled in labels.items():
        for group in carriers(labelled, prompts.pairs):
            both = paired_sets(group, generator(seed, "family-knockout", *names, kind, group.family))
            tried.append((kind, group, both[0].sum(0)))
            sets += [(group, members) for members in both]
    if not sets or not len(prompts.tokens):
        return
    lost = losses(run, prompts, sets, center)
    for number, (kind, group, sizes) in enumerate(tried):
        used = sizes > 0
        problems = problems_of(names[1], prompts.pairs.a[used], prompts.pairs.b[used])
        for metric, values in lost.items():
            means = resampled(values[2 * number : 2 * number + 2, used], resampling(problems, bootstrap, seed))
            key, pair = (kind, group.family, metric), compare(*(Value(mean, problems) for mean in means.T))
            yield key, Tried(pair, len(group.layers), float(sizes[used].mean()) if used.any() else float("nan"))


def family_knockout_table(cells: Mapping[tuple[str, str], Mapping[TriedKey, Tried]], k: int) -> pd.DataFrame:
    """The table: a row for each kind, family and metric in each cell, in each operator and over all cells."""
    table = []
    for key in {key: None for tried in cells.values() for key in tried}:
        here = {cell: tried[key] for cell, tried in cells.items() if key in tried}

        def sizes(
            row_cells: Sequence[tuple[str, str]], here: Mapping[tuple[str, str], Tried] = here
        ) -> dict[str, object]:
            ablated_means = [here[cell].ablated for cell in row_cells if not np.isnan(here[cell].ablated)]
            ablated = float(np.mean(ablated_means)) if ablated_means else float("nan")
            return {"labelled": sum(here[cell].labelled for cell in row_cells), "ablated": ablated}

        names = dict(zip(("neurons", "family", "metric"), key, strict=True))
        for row in rows({cell: tried.pair for cell, tried in here.items()}, more=sizes):
            table.append({**names, "k": k, **row})
    return pd.DataFrame(table, columns=list(FAMILY_KNOCKOUT.columns))
