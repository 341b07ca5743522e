"""The values that contrasts compare: mean effects of sets of neurons on the prompts of a cell."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from form_invariance.experiment.contrasts.cells import OWN, Cell, Sample
from form_invariance.experiment.contrasts.engine import Value, strongest
from form_invariance.experiment.neuron_sets import (
    BEST_IN,
    CIRCUIT,
    CONTROL_OF,
    CONTROLS,
    FAIR,
    HALVES,
    MATCHED,
    NOT_SHARED,
    OWN_BEST,
)

RATE = "rate"
"""The metric of transfer: shares of pairs."""
Values = Callable[[Cell], tuple[Value, Value]]
Rate = Callable[[Cell], Sample | None]


def circuit(cell: Cell, on: str = OWN) -> Value:
    """The shared neurons."""
    return cell.mean(CIRCUIT, on=on)


def control(cell: Cell, on: str = OWN, kinds: Iterable[str] = MATCHED) -> Value:
    """The strongest of the circuit's controls."""
    return cell.strongest({kind: kind for kind in kinds}, on)


def beyond(cell: Cell, on: str = OWN) -> Value:
    """The circuit's effect beyond that of its strongest matched control."""
    return replace(circuit(cell, on) - control(cell, on), control="")


def own_best(cell: Cell, on: str = OWN) -> Value:
    """The best neurons in the format of the prompts."""
    return cell.mean(BEST_IN + cell.format, on=on)


def others_best(cell: Cell, whose: str = OWN) -> Value:
    """The mean over the best in each other format, and with `whose=OTHER_OPERATORS` over the other operators'."""
    return cell.mean(*(BEST_IN + name for name in cell.elsewhere), whose=whose)


def halves_best(cell: Cell) -> Value:
    """The mean over the own best by either half of the train prompts."""
    return cell.mean(*(half + BEST_IN + cell.format for half in HALVES))


def best_control(cell: Cell, kinds: Iterable[str] = FAIR) -> Value:
    """The strongest of the own best's controls; those of equal norm exist in a knockout alone."""
    return cell.strongest({kind: kind + CONTROL_OF + OWN_BEST for kind in kinds}, draws=False)


def other_circuits(cell: Cell) -> Mapping[str, tuple[Value, Value]]:
    """The operator's circuit and another's on the operator's prompts, by the other operator."""
    own_value = circuit(cell)
    samples = {operator: cell.sample(CIRCUIT, operator) for operator in cell.other_operators}
    return {operator: (own_value, cell.value(sample)) for operator, sample in samples.items() if sample}


def of_best(kind: str) -> Callable[[Cell], Value]:
    """A set that is drawn or chosen from the own best, or controls it."""
    return lambda cell: cell.mean(kind, ranked=False)


def rate(condition: str, metric: str = RATE) -> Rate:
    """The outcome of each pair if the circuit takes a donor's activations."""
    return lambda cell: cell.sample(CIRCUIT, intervention=condition, metric=metric)


def both(first: Rate, second: Rate) -> Values:
    """Two rates, over the pairs that have both."""
    return lambda cell: cell.paired(first(cell), second(cell))


def imposed(condition: str) -> Values:
    """How often the output is the donor's answer, and how often that of another pair's donor."""
    return both(rate(condition, "donor_answer"), rate(condition, "permuted_answer"))


def repaired(cell: Cell) -> tuple[Value, Value]:
    """The matched donor, and the baseline that repairs most pairs in the mean over its draws."""
    baselines = {
        "no_donor": cell.sample(CIRCUIT, intervention="no_donor", ranked=False),
        "mismatched": cell.sample(CIRCUIT, intervention="mismatched"),
        **{name: cell.sample(name, intervention="matched", ranked=False) for name in (*CONTROLS, NOT_SHARED)},
    }
    name = strongest({name: float(cell.value(sample).mean[0]) for name, sample in baselines.items()})
    return cell.paired(cell.sample(CIRCUIT, intervention="matched"), baselines.get(name), name)
