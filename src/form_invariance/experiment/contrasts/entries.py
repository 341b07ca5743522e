"""The list of contrasts: what each compares, in words and as two values.

An entry is evaluated for each format and operator, or for each direction of transfer. Its words describe the
column `contrast`; `docs/method.md` repeats them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from form_invariance.experiment.contrasts.cells import COPYING, OTHER_OPERATORS, OWN, Cell, Measured
from form_invariance.experiment.contrasts.engine import Value
from form_invariance.experiment.contrasts.values import (
    RATE,
    Values,
    best_control,
    beyond,
    both,
    circuit,
    control,
    halves_best,
    imposed,
    of_best,
    other_circuits,
    others_best,
    own_best,
    rate,
    repaired,
)
from form_invariance.experiment.intervention_kinds import DIRECT, KEEP_ONLY, KNOCKOUT
from form_invariance.experiment.measurements import FORMAT_MEANS, TASK_MEANS
from form_invariance.experiment.neuron_sets import (
    ALL_LATE,
    BEST_NOT_SHARED,
    CONTROL_OF,
    CONTROLS,
    EQUAL_NORM,
    FAIR,
    LAYERS_OF_BEST,
    MATCHED,
    OWN_BEST,
    PART_OF_BEST,
    RANDOM_DIRECTION,
)

PRIMARY = "probability"
"""The metric that decides questions about ablations: it has the most power on constructed models."""

CIRCUITS, DOSE, TASKS = "k", "best_k", "specificity_k"
"""The configuration keys of the sizes k at which contrasts are evaluated."""
OWN_LOSS, SHARED_LOSS, ALL_LOSS = "loss_of_own_best", "loss_of_shared", "loss_of_all_late"


@dataclass(frozen=True)
class Contrast:
    """A comparison of two values in each cell.

    Attributes:
        compared: first − second, in words.
        values: both values of a cell.
        metrics: the metrics of each intervention; the intervention of transfer is empty.
        positions: the positions that are changed.
        means: what replaces ablated neurons, as in the measurements; empty in transfer.
        tasks: the tasks on which it is evaluated; empty: all.
        sizes: CIRCUITS, DOSE or TASKS.
        halved: along the dose, the contrast whose loss determines the size at which a question is decided.
        rivals: replaces `values` where the second value is the strongest of several: both values by rival.
    """

    compared: str
    values: Values
    metrics: Mapping[str, Sequence[str]]
    positions: str = "last"
    means: str = TASK_MEANS
    tasks: Sequence[str] = (OWN,)
    sizes: str = DOSE
    halved: str = OWN_LOSS
    rivals: Callable[[Cell], Mapping[str, tuple[Value, Value]]] | None = None

    def measure(self, intervention: str) -> str:
        """How a metric is read: what is lost by the intervention, what is gained, or its value after it."""
        return "lost" if intervention in (KNOCKOUT, DIRECT) else "gained" if self.means == TASK_MEANS else "after"


def loss(
    neurons: str,
    of: Callable[[Cell], Value],
    intervention: str = KNOCKOUT,
    kept: bool = False,
    sizes: str = DOSE,
) -> Contrast:
    """A loss compared with zero; `kept`: also the gain of keeping the neurons alone."""

    def values(cell: Cell) -> tuple[Value, Value]:
        value = of(cell)
        return value, replace(value - value, control="")

    metrics = {intervention: (PRIMARY,)} | ({KEEP_ONLY: (PRIMARY,)} if kept else {})
    kept_too = "; kept alone: change of probability" if kept else ""
    return Contrast(f"cost of {neurons}{kept_too}", values, metrics, sizes=sizes)


def moved(compared: str, values: Values) -> Contrast:
    """A contrast of transfer."""
    return Contrast(compared, values, {"": (RATE,)}, means="", sizes=CIRCUITS)


LOST, LOST_RIGHT = {KNOCKOUT: (PRIMARY,)}, {KNOCKOUT: (PRIMARY, "accuracy")}
LOST_BY_ALL = {KNOCKOUT: (PRIMARY, "accuracy", "margin")}
BOTH = dict.fromkeys((KNOCKOUT, KEEP_ONLY), (PRIMARY,))

CONTRASTS = {
    "circuit_minus_control_everywhere": Contrast(
        "what the circuit keeps or costs at all positions − what its strongest control does",
        lambda cell: (circuit(cell), control(cell, kinds=CONTROLS)),
        dict.fromkeys((KEEP_ONLY, KNOCKOUT), ("faithfulness", "accuracy", PRIMARY)),
        "all",
        FORMAT_MEANS,
        sizes=CIRCUITS,
    ),
    "circuit_minus_fair_control": Contrast(
        "cost of the circuit − that of its strongest control, matched or of equal norm",
        lambda cell: (circuit(cell), control(cell, kinds=FAIR)),
        LOST_RIGHT,
        halved=SHARED_LOSS,
    ),
    "circuit_minus_control": Contrast(
        "cost of the circuit to a task − that of its strongest matched control",
        lambda cell: (circuit(cell, cell.task), control(cell, cell.task)),
        LOST,
        tasks=(),
        sizes=TASKS,
    ),
    "own_minus_other_beyond_control": Contrast(
        "cost of the circuit to its operator − that to the others (mean), both beyond the strongest matched "
        "control",
        lambda cell: (beyond(cell), beyond(cell, OTHER_OPERATORS)),
        LOST_RIGHT,
        halved=SHARED_LOSS,
    ),
    "own_minus_other_circuits": Contrast(
        "cost of the circuit to its operator − that of another operator's strongest circuit: the least over all "
        "choices of a rival for each operator",
        lambda cell: (circuit(cell), cell.average([])),
        LOST_RIGHT,
        halved=SHARED_LOSS,
        rivals=other_circuits,
    ),
    "own_minus_copied_of_own": Contrast(
        "cost of the circuit to its operator − that to all_copying, compared with the former, all beyond the "
        "strongest matched control",
        lambda cell: (beyond(cell) - beyond(cell, COPYING), beyond(cell)),
        LOST_BY_ALL,
        sizes=TASKS,
    ),
    "exchanged_minus_own_beyond_control": Contrast(
        "other formats' best (mean) − own best, both beyond the own best's strongest control: matched, or in a "
        "knockout of equal norm",
        lambda cell: (others_best(cell) - best_control(cell), own_best(cell) - best_control(cell)),
        {**LOST_RIGHT, KEEP_ONLY: (PRIMARY,)},
    ),
    "half_minus_own_beyond_control": Contrast(
        "the same of the own best by either half of the train prompts",
        lambda cell: (halves_best(cell) - best_control(cell), own_best(cell) - best_control(cell)),
        BOTH,
    ),
    "exchanged_minus_other_operators_best": Contrast(
        "other formats' best − other operators' best in these formats",
        lambda cell: (others_best(cell), others_best(cell, OTHER_OPERATORS)),
        BOTH,
    ),
    "other_formats_minus_own": Contrast(
        "other formats' best − own best", lambda cell: (others_best(cell), own_best(cell)), LOST
    ),
    "other_operators_minus_own": Contrast(
        "other operators' best in the other formats − own best",
        lambda cell: (others_best(cell, OTHER_OPERATORS), own_best(cell)),
        LOST,
    ),
    "shared_minus_part_of_best": Contrast(
        "shared neurons − as many random members of the own best in each layer",
        lambda cell: (circuit(cell), cell.mean(PART_OF_BEST, ranked=False, draws=True)),
        LOST_RIGHT,
        halved=SHARED_LOSS,
    ),
    OWN_LOSS: loss("the own best", own_best, kept=True),
    "loss_of_other_formats_best": loss("the other formats' best", others_best, kept=True),
    "loss_of_other_operators_best": loss(
        "other operators' best in the other formats",
        lambda cell: others_best(cell, OTHER_OPERATORS),
        kept=True,
    ),
    SHARED_LOSS: loss("the shared neurons", circuit, kept=True),
    "loss_of_best_not_shared": loss("the own best without the shared", of_best(BEST_NOT_SHARED)),
    "loss_of_part_of_best": loss("as many random members of the own best as are shared", of_best(PART_OF_BEST)),
    "loss_of_matched": loss(
        "the stronger of the own best's matched controls",
        lambda cell: best_control(cell, MATCHED),
        kept=True,
    ),
    "loss_of_equal_norm": loss(
        "other candidates, scaled to the norm of the own best's change",
        of_best(EQUAL_NORM + CONTROL_OF + OWN_BEST),
    ),
    "loss_of_random_direction": loss(
        "changes of that norm in a random direction", of_best(RANDOM_DIRECTION + CONTROL_OF + OWN_BEST)
    ),
    "loss_of_own_best_direct": loss("the own best, past all later layers", own_best, DIRECT),
    ALL_LOSS: loss("all late neurons", of_best(ALL_LATE)),
    "loss_of_copying": loss("the own best to all_copying", lambda cell: own_best(cell, COPYING), sizes=TASKS),
    "matched_minus_baseline": moved(
        "recovered under `matched` − under the strongest of `no_donor`, `mismatched`, `not_shared` and the "
        "controls",
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
        "rate of the donor's answer under `mismatched` − share of the other pairs' donors whose answer comes out "
        "(donors with the right answer do not count)",
        imposed("mismatched"),
    ),
    "interchange": moved("the same under `interchange`", imposed("interchange")),
    "interchange_minus_copied": moved(
        "rate of the donor's answer under `interchange` − under `copied_other`, on pairs with both donors",
        both(rate("interchange", "donor_answer"), rate("copied_other", "donor_answer")),
    ),
}
"""By name in the table."""


def entries_of(measured: Measured) -> dict[str, Contrast]:
    """All contrasts: the list, and the loss of the own best of each group of layers."""
    groups = sorted(name for name in measured.neurons if name.startswith(LAYERS_OF_BEST))
    return CONTRASTS | {
        f"loss_of_{name}": loss(f"the own best of layers {name.removeprefix(LAYERS_OF_BEST)}", of_best(name))
        for name in groups
    }
