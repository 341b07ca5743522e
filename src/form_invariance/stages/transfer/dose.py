"""How much of the donor's activation transfer needs: recovery by dose (beyond the paper).

At dose 0 nothing is transferred, at dose 1 the whole of what `transfer` transfers in its condition matched.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.controls import NeuronSet
from form_invariance.stages.run import Run
from form_invariance.stages.transfer.conditions import Plans, only
from form_invariance.stages.transfer.directions import RATES, run_directions
from form_invariance.stages.transfer.names import CIRCUIT, NONE


def best_first(
    circuit: pd.DataFrame, k: int, rankings: Mapping[str, pd.DataFrame], layers: range
) -> list[np.ndarray]:
    """The circuit's neurons of each late layer, by mean rank over the formats; ties by the neuron's index.

    Args:
        circuit: circuit table.
        k: size of the circuit.
        rankings: ranking table of every format.
        layers: the late layers.
    """
    ranks = pd.concat(rankings.values()).groupby(["layer", "neuron"], as_index=False)["rank"].mean()
    members = circuit[circuit["k"] == k].merge(ranks, on=["layer", "neuron"])
    members = members.sort_values(["layer", "rank", "neuron"])
    return [members.loc[members["layer"] == layer, "neuron"].to_numpy() for layer in layers]


def first_of(orders: Sequence[np.ndarray], dose: float, width: int) -> np.ndarray:
    """1 for the first neurons of each layer, a fraction `dose` of them, halves rounded up; (layers, width)."""
    chosen = np.zeros((len(orders), width))
    for layer, order in enumerate(orders):
        chosen[layer, order[: int(dose * len(order) + 0.5)]] = 1
    return chosen


def _each(
    orders: Sequence[np.ndarray], width: int, doses: Sequence[float], draws: int, seed: int, operator: str
) -> Iterator[tuple[str, int, float, np.ndarray]]:
    shuffled = []
    for draw in range(draws):
        rng = generator(seed, "dose", operator, draw)
        shuffled.append([rng.permutation(np.sort(order)) for order in orders])
    for dose in doses:
        yield "strength", NONE, dose, dose * first_of(orders, 1, width)
        yield "neurons", NONE, dose, first_of(orders, dose, width)
        for draw, order in enumerate(shuffled):
            yield "neurons_random", draw, dose, first_of(order, dose, width)


def dose_sets(
    orders: Sequence[np.ndarray], width: int, doses: Sequence[float], draws: int, seed: int, operator: str
) -> list[NeuronSet]:
    """Every dose of every kind.

    strength: each neuron of the circuit moves a fraction of the way to the donor's activation. neurons: the
    best of them, a fraction, take it. neurons_random: as many of them in a random order, the same order at
    all doses of a draw.

    Args:
        orders: the circuit's neurons in each late layer, best first.
        width: neurons of a layer.
        doses: from 0 to 1.
        draws: random orders.

    Returns:
        Sets whose members say how far each neuron moves, from 0 to 1.
    """
    return [
        NeuronSet({"neurons": CIRCUIT, "kind": kind, "seed": draw, "dose": float(dose)}, shares)
        for kind, draw, dose, shares in _each(orders, width, doses, draws, seed, operator)
    ]


def dose_table(run: Run, plans: Plans, sets: Sequence[NeuronSet], center: bool) -> pd.DataFrame:
    """Recovery by dose in all directions: the dose table without its column k.

    Where the circuit has no neuron, the rates are not numbers.

    Args:
        plans: of `transfer.conditions.plan`; their matched pairs are run.
    """
    matched = only(plans, "matched")
    measured = run_directions(run, matched, {}, {key: {CIRCUIT: sets} for key in matched}, center)
    table = pd.concat([rates for _, rates, _ in measured], ignore_index=True)
    if not table["n_neurons"].any():
        table[RATES] = np.nan
    table = table.rename(columns={"normalized_logit_after": "normalized_logit"})
    return table.drop(columns=["condition", "donor_answer", "normalized_logit_before"])
