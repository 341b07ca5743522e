"""What the cost of a cell depends on: sizes of the model, tokens of a prompt, numbers of problems."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from form_invariance.problems.configured import task_of
from form_invariance.problems.tasks import Arithmetic, TableTask, Task, pool
from form_invariance.workflow.config_check import template_of
from form_invariance.workflow.job_sizes import known_sizes, parameters
from form_invariance.workflow.rule_options import dose_sizes, task_sizes


@dataclass(frozen=True)
class ModelSize:
    """A model's sizes.

    Attributes:
        inside: weights in the matrices of all layers together.
        d_mlp: neurons of a layer.
        near: whether a patch reads out only a tenth of the vocabulary.
        late_from: the first late layer, or half_depth.
    """

    inside: float
    d_model: float
    d_mlp: float
    vocabulary: float
    layers: int
    near: bool = True
    late_from: int | str = "half_depth"

    @property
    def late(self) -> int:
        """Number of late layers; at least one, because the number of layers may be guessed."""
        first = self.layers // 2 if self.late_from == "half_depth" else int(self.late_from)
        return max(1, self.layers - first)

    @property
    def unembedding(self) -> float:
        """Operations of one token's logits."""
        return 2 * self.d_model * self.vocabulary

    @property
    def patch(self) -> float:
        """Operations of one patched neuron, mean over late layers."""
        readout = (0.1 if self.near else 1) * self.unembedding
        return 2 * self.inside / self.layers * (self.late - 1) / 2 + readout

    @property
    def late_token(self) -> float:
        """Operations of one token through the late layers and the unembedding."""
        return 2 * self.inside * self.late / self.layers + self.unembedding


def size_of(model: Mapping[str, Any]) -> ModelSize:
    """Sizes of a model, from its config.json; if that is not on this machine, from its number of parameters."""
    c, near = known_sizes(model), model.get("readout", "near") == "near"
    if c is not None:
        return ModelSize(c.n_layers * c.layer_parameters, c.d_model, c.d_mlp, c.vocabulary, c.n_layers, near)
    # Proportions of the Llama models with 1, 3, 8 and 70 billion parameters, which have one vocabulary.
    count = parameters(model)
    layers, inside = max(2, round(16 * (count / 1e9) ** (1 / 3))), 0.9 * count
    d_model = (inside / layers / 13) ** 0.5
    return ModelSize(inside, d_model, 3.5 * d_model, 128_000, layers, near)


def tokens_of(template: str, digits: int = 1) -> int:
    """Approximate number of tokens of a prompt: BOS, words, signs and the operands' digits."""
    return 1 + len(re.findall(r"\w+|[^\w\s]", re.sub(r"\{[ab]\}", " 1" * digits, template)))


@cache
def _rows(task: TableTask) -> int:
    return len(pool(task))


@cache
def grid_pairs(task: Task, max_operand: int) -> int:
    """Operand pairs of the heuristics' grid; for a digit of a result, only pairs in the operator's limits."""
    if not isinstance(task, Arithmetic) or task.digit is None:
        return max_operand**2
    return int((pool(task)[["a", "b"]] < max_operand).all(axis=1).sum())


@dataclass(frozen=True)
class CellSizes:
    """A cell of the configuration, with what its cost depends on."""

    config: Mapping[str, Any]
    size: ModelSize
    format: str
    operator: str

    @property
    def template(self) -> str:
        """The cell's template."""
        return template_of(self.config, self.format, self.operator)

    @property
    def task(self) -> Task:
        """What the operator asks."""
        return task_of(self.config["operators"][self.operator], self.config["operands"])

    def tokens_from(self, start: int) -> int:
        """Tokens of a prompt from a character of its template on; if a digit is asked, each digit is a token."""
        asks_digit = isinstance(self.task, Arithmetic) and self.task.digit is not None
        return tokens_of(
            self.template[start:], len(str(self.config["operands"]["operand_max"])) if asks_digit else 1
        )

    def problems(self, key: str) -> int:
        """Number of problems that a key of the configuration asks for, at most the rows of the table."""
        number: int = self.config[key]
        # `scout` estimates a run before it writes the tables.
        if isinstance(self.task, TableTask) and self.task.path.exists():
            return min(number, _rows(self.task))
        return number

    @property
    def task_sizes(self) -> list[int]:
        """Sizes of the circuits on other tasks."""
        return task_sizes(self.config)

    @property
    def dose_sizes(self) -> list[int]:
        """Sizes of the circuits along the dose."""
        return dose_sizes(self.config)

    @property
    def tokens(self) -> int:
        """Tokens of a prompt from the first operand on; the text before it runs once for all prompts."""
        return self.tokens_from(self.template.find("{"))

    def passes(self, prompts: float) -> float:
        """Operations of this many prompts through all layers."""
        return prompts * 2 * self.size.inside * self.tokens

    def patches(self, prompts: float, draws: float) -> float:
        """Operations of exact patching, and of the passes before it."""
        candidates = min(self.config["candidates"], self.size.d_mlp) * self.size.late
        return 2 * self.passes(prompts) + prompts * draws * candidates * self.size.patch

    def fits(self, examples: float, probes: float) -> float:
        """Operations of probes after every layer: choosing the shrinkage and two fits cost as much as three."""
        small, large = sorted((self.size.d_model, examples))
        return 3 * probes * self.size.layers * 2 * small**2 * (large + small / 3)
