"""The neurons of all cells as the train prompts rank them: circuits, each cell's best, and matched controls."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from form_invariance.experiment.controls import NOT_DRAWN, Draws, NeuronSet, controls, matching_values
from form_invariance.experiment.means import read_means
from form_invariance.experiment.membership import Effects
from form_invariance.experiment.neuron_sets import BEST_IN, CIRCUIT, HALVES, MATCHED
from form_invariance.model.decoder import Decoder
from form_invariance.tables.keys import by_key


@dataclass(frozen=True)
class Ranked:
    """The neurons of all cells, as the train prompts rank them.

    Attributes:
        ranks: ranks from 0, (late layers, m), by half of the train prompts (empty: by all), format and operator.
        candidates: the neurons that were ranked, bool, (late layers, m), by format and operator.
        first: the first late layer.
    """

    ranks: Mapping[str, Mapping[tuple[str, str], np.ndarray]]
    candidates: Mapping[tuple[str, str], np.ndarray]
    first: int

    @property
    def operators(self) -> list[str]:
        """All operators."""
        return list(dict.fromkeys(operator for _, operator in self.candidates))

    def best(self, k: int, format: str, operator: str, half: str = "") -> np.ndarray:
        """The k best of each layer, bool, (late layers, m)."""
        return np.asarray(self.ranks[half][format, operator] < k)

    def shared(self, k: int, operator: str, half: str = "") -> np.ndarray:
        """The neurons that are among the k best in every format, bool, (late layers, m)."""
        return np.all([ranks < k for (_, of), ranks in self.ranks[half].items() if of == operator], axis=0)


def ranked(effects: Mapping[tuple[str, str], Effects]) -> Ranked:
    """The ranks in every cell (format, operator), by all train prompts and by each half of them."""

    def placed(cell: Effects) -> np.ndarray:
        return np.stack([cell.ranks(layer) for layer in cell.candidates])

    halves = {key: cell.halves() for key, cell in effects.items()}
    by_half = {half: {key: placed(two[i]) for key, two in halves.items()} for i, half in enumerate(HALVES)}
    ranks = {"": {key: placed(cell) for key, cell in effects.items()}, **by_half}
    candidates = {}
    for key, cell in effects.items():
        candidates[key] = np.zeros((len(cell.candidates), cell.width), dtype=bool)
        for row, neurons in zip(candidates[key], cell.candidates.values(), strict=True):
            row[neurons] = True
    return Ranked(ranks, candidates, min(next(iter(effects.values())).candidates))


def ranked_set(operator: str, neurons: str, k: int, members: np.ndarray, seed: int = NOT_DRAWN) -> NeuronSet:
    """A set with the columns that identify it in the tables by prompt."""
    return NeuronSet({"operator": operator, "neurons": neurons, "k": k, "seed": seed}, members)


def circuits(ranked: Ranked, k: int) -> Iterator[NeuronSet]:
    """The shared neurons of every operator, also as each half of the train prompts ranks them."""
    for half in ("", *HALVES):
        for operator in ranked.operators:
            yield ranked_set(operator, half + CIRCUIT, k, ranked.shared(k, operator, half))


def best_of(ranked: Ranked, k: int, cells: Iterable[tuple[str, str]]) -> Iterator[NeuronSet]:
    """The k best of cells (format, operator), also as each half of the train prompts ranks them."""
    cells = list(cells)
    for half in ("", *HALVES):
        for format, operator in cells:
            yield ranked_set(operator, half + BEST_IN + format, k, ranked.best(k, format, operator, half))


def circuit_controls(
    ranked: Ranked, k: int, values: Mapping[str, Mapping[str, np.ndarray]], draws: Draws
) -> Iterator[NeuronSet]:
    """The matched controls of every operator's circuit in one format; a circuit without neurons has none.

    Args:
        values: from `matching_values`, by operator.
    """
    for operator, operator_values in values.items():
        members = ranked.shared(k, operator)
        for control in controls(members, k, MATCHED if members.any() else (), operator_values, draws, operator):
            yield replace(control, label={"operator": operator, **control.label})


def matched_by(effects: Effects, variance: np.ndarray) -> dict[str, np.ndarray]:
    """What matches a cell's controls, (late layers, m); `variance` is that of the last token's activations."""
    return matching_values(variance, np.stack([effects.means(layer) for layer in effects.candidates]))


def matched_in(
    format: str,
    effects: Mapping[tuple[str, str], Effects],
    template_mean_caches: Iterable[Path],
    model: Decoder,
    first: int,
) -> dict[str, dict[str, np.ndarray]]:
    """`matched_by` for every operator of a format.

    Args:
        template_mean_caches: that of each operator's template.
        first: the first late layer.
    """
    return {
        operator: matched_by(effects[format, operator], read_means(path, model).late_variance(first))
        for operator, path in by_key(template_mean_caches, "operator").items()
    }
