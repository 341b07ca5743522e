"""The list of contrasts: what each compares, in words and as two values.

An entry is asked of each format and operator, or of each direction of transfer. Its words are those of
`docs/method.md`, and the meaning of the column `contrast`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from form_invariance.experiment.contrasts.cells import COPYING, OTHER_OPERATORS, OWN, Cell, Sample
from form_invariance.experiment.contrasts.engine import NO_CONTROL, Value, strongest
from form_invariance.experiment.intervention_kinds import KEEP_ONLY, KNOCKOUT
from form_invariance.experiment.measurements import FORMAT_MEANS, TASK_MEANS
from form_invariance.experiment.neuron_sets import (
    BEST_IN,
    CIRCUIT,
    COMMON,
    CONTROL_OF,
    CONTROLS,
    DRAWN,
    HALVES,
    MATCHED,
    NOT_SHARED,
    OTHER_ONLY,
    OWN_BEST,
    OWN_ONLY,
)

RATE = "rate"
"""The metric of transfer: shares of pairs."""
PRIMARY = "probability"
"""The metric that decides what ablated neurons do: that with the most power on constructed models."""

Values = Callable[[Cell], tuple[Value, Value]]
Rate = Callable[[Cell], Sample | None]


@dataclass(frozen=True)
class Contrast:
    """A comparison of two values in each cell.

    Attributes:
        compared: first − second, in words.
        values: both values of a cell.
        metrics: by which it is asked, by intervention; transfer has one for each kind of donor.
        positions: that are changed.
        means: what is put in, as in the measurements.
        tasks: on which it is asked; empty: on all.
    """

    compared: str
    values: Values
    metrics: Mapping[str, Sequence[str]]
    positions: str = "last"
    means: str = TASK_MEANS
    tasks: Sequence[str] = (OWN,)

    def measure(self, intervention: str) -> str:
        """What is made of a metric: its value after the intervention, what is lost, or what is gained."""
        return "lost" if intervention == KNOCKOUT else "gained" if self.means == TASK_MEANS else "after"


def circuit(cell: Cell, on: str = OWN) -> Value:
    """The shared neurons."""
    return cell.mean(CIRCUIT, on=on)


def control(cell: Cell, on: str = OWN) -> Value:
    """The strongest of the circuit's matched controls."""
    return cell.strongest(dict(zip(MATCHED, MATCHED, strict=True)), on)


def beyond(cell: Cell, on: str = OWN) -> Value:
    """What the circuit does beyond its strongest control."""
    return replace(circuit(cell, on) - control(cell, on), control="")


def own_best(cell: Cell, on: str = OWN) -> Value:
    """The best neurons in the format of the prompts."""
    return cell.mean(BEST_IN + cell.format, on=on)


def others_best(cell: Cell, whose: str = OWN) -> Value:
    """The best in the other formats: the mean over these, and over the other operators if it is theirs."""
    return cell.mean(*(BEST_IN + name for name in cell.elsewhere), whose=whose)


def halves_best(cell: Cell) -> Value:
    """The own best by either half of the train prompts."""
    return cell.mean(*(half + BEST_IN + cell.format for half in HALVES))


def best_control(cell: Cell, of: str = OWN_BEST) -> Value:
    """The strongest of the matched controls of the own best, or of a part."""
    return cell.strongest({kind: kind + CONTROL_OF + of for kind in MATCHED}, draws=False)


def loss(neurons: str, of: Callable[[Cell], Value]) -> Contrast:
    """What is lost, compared with nothing."""

    def values(cell: Cell) -> tuple[Value, Value]:
        value = of(cell)
        return value, replace(value - value, control="")

    return Contrast(f"what {neurons} cost; second is 0", values, LOST)


def part(kind: str) -> Values:
    """Parts of the best in two formats − their controls: means over the other formats."""

    def values(cell: Cell) -> tuple[Value, Value]:
        names = [kind + name for name in cell.elsewhere if cell.sample(kind + name)]
        controls = {name: best_control(cell, OWN_BEST if kind == COMMON else name) for name in names}
        known = {name: value for name, value in controls.items() if value.control != NO_CONTROL}
        return cell.mean(*known), cell.average([*known.values()])

    return values


def rate(condition: str, metric: str = RATE) -> Rate:
    """What comes of each pair if the circuit takes the activations of a donor."""
    return lambda cell: cell.sample(CIRCUIT, intervention=condition, metric=metric)


def both(first: Rate, second: Rate) -> Values:
    """Two rates, over the pairs that have both."""
    return lambda cell: cell.paired(first(cell), second(cell))


def imposed(condition: str) -> Values:
    """How often the donor's answer comes out, and that of another pair's donor."""
    return both(rate(condition, "donor_answer"), rate(condition, "permuted_answer"))


def moved(compared: str, values: Values) -> Contrast:
    """A contrast of transfer."""
    return Contrast(compared, values, {"": (RATE,)}, means="")


def repaired(cell: Cell) -> tuple[Value, Value]:
    """The matched donor, and the baseline that repairs most in the mean over its draws."""
    baselines = {
        "no_donor": cell.sample(CIRCUIT, intervention="no_donor", ranked=False),
        "mismatched": cell.sample(CIRCUIT, intervention="mismatched"),
        **{name: cell.sample(name, intervention="matched", ranked=False) for name in (*DRAWN, NOT_SHARED)},
    }
    name = strongest({name: float(cell.value(sample).mean[0]) for name, sample in baselines.items()})
    return cell.paired(cell.sample(CIRCUIT, intervention="matched"), baselines.get(name), name)


LOST, LOST_RIGHT = {KNOCKOUT: (PRIMARY,)}, {KNOCKOUT: (PRIMARY, "accuracy")}
BOTH = dict.fromkeys((KNOCKOUT, KEEP_ONLY), (PRIMARY,))

CONTRASTS = {
    "circuit_minus_control_everywhere": Contrast(
        "what the circuit keeps, or costs knocked out, at all positions − what its strongest control does",
        lambda cell: (circuit(cell), cell.strongest(dict(zip(CONTROLS, CONTROLS, strict=True)))),
        dict.fromkeys((KEEP_ONLY, KNOCKOUT), ("faithfulness", "accuracy", PRIMARY)),
        "all",
        FORMAT_MEANS,
    ),
    "circuit_minus_control": Contrast(
        "what the circuit costs a task − what its strongest matched control does",
        lambda cell: (circuit(cell, cell.task), control(cell, cell.task)),
        LOST,
        tasks=(),
    ),
    "own_minus_other": Contrast(
        "what the circuit costs its operator − what it costs the others (their mean)",
        lambda cell: (circuit(cell), circuit(cell, OTHER_OPERATORS)),
        LOST,
    ),
    "own_minus_other_beyond_control": Contrast(
        "the same of circuit − strongest control",
        lambda cell: (beyond(cell), beyond(cell, OTHER_OPERATORS)),
        LOST_RIGHT,
    ),
    "own_minus_other_circuits": Contrast(
        "what the circuit costs its operator − what the strongest circuit of another operator does, which each "
        "half of the problems chooses for the other half (for itself, chance would choose)",
        lambda cell: (circuit(cell), cell.strongest_of_others(CIRCUIT)),
        LOST_RIGHT,
    ),
    "own_minus_copied_of_own": Contrast(
        "what the circuit costs its operator − what it costs all_copying (the mean of the tasks whose answer is a "
        "number of the prompt), compared with the former, all beyond the strongest control",
        lambda cell: (beyond(cell) - beyond(cell, COPYING), beyond(cell)),
        LOST_RIGHT,
    ),
    "exchanged_minus_own_beyond_control": Contrast(
        "the other formats' best (their mean) − the format's own best, each minus the strongest of the own best's "
        "matched controls",
        lambda cell: (others_best(cell) - best_control(cell), own_best(cell) - best_control(cell)),
        {**LOST_RIGHT, KEEP_ONLY: (PRIMARY,)},
    ),
    "half_minus_own_beyond_control": Contrast(
        "the same of the own best by either half of the train prompts",
        lambda cell: (halves_best(cell) - best_control(cell), own_best(cell) - best_control(cell)),
        BOTH,
    ),
    "exchanged_minus_other_operators_best": Contrast(
        "the other formats' best − the best of other operators in these formats",
        lambda cell: (others_best(cell), others_best(cell, OTHER_OPERATORS)),
        BOTH,
    ),
    "common_minus_control": Contrast(
        "what two formats' best have in common − controls of the own best", part(COMMON), BOTH
    ),
    "own_only_minus_control": Contrast(
        "what only the own best of two have − controls of this size", part(OWN_ONLY), BOTH
    ),
    "other_only_minus_control": Contrast(
        "what only the other best of two have − controls of this size", part(OTHER_ONLY), BOTH
    ),
    "loss_of_own_best": loss("the format's own best", own_best),
    "loss_of_other_formats_best": loss("the other formats' best", others_best),
    "loss_of_other_operators_best": loss(
        "other operators' best, in the other formats,", lambda cell: others_best(cell, OTHER_OPERATORS)
    ),
    "loss_of_matched": loss("the strongest of the own best's matched controls", best_control),
    "loss_of_copying": loss("the own best, on the prompts of all_copying,", lambda cell: own_best(cell, COPYING)),
    "matched_minus_baseline": moved(
        "recovered under `matched` − under the strongest of `no_donor`, `mismatched`, `not_shared` and the "
        "controls in the cell",
        repaired,
    ),
    "matched_minus_same_answer": moved(
        "recovered under `matched` − under `same_answer`, on pairs with both donors",
        both(rate("matched"), rate("same_answer")),
    ),
    "matched_minus_copied_answer": moved(
        "recovered under `matched` − under `copied_answer`, on pairs with both donors",
        both(rate("matched"), rate("copied_answer")),
    ),
    "imposed": moved(
        "the output under `mismatched` is the donor's answer − the share of the other pairs' donors whose answer "
        "it is (donors with the right answer do not count)",
        imposed("mismatched"),
    ),
    "interchange": moved("the same under `interchange`", imposed("interchange")),
    "interchange_minus_copied": moved(
        "the output under `interchange` is the donor's answer − under `copied_other`, on pairs with both donors",
        both(rate("interchange", "donor_answer"), rate("copied_other", "donor_answer")),
    ),
}
"""By name in the table."""
