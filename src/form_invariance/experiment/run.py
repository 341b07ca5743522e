"""What the stages after the probe run on: a model, its tokenizer and its late layers."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.experiment.late_layers import first_late_layer
from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import RunOptions
from form_invariance.model.decoder import Decoder
from form_invariance.model.near_readout import Readouts
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.tables import lineage


@dataclass(frozen=True)
class Run:
    """A model with its tokenizer, and the first of its late layers, whose neurons are studied."""

    model: Decoder
    tokenizer: PromptTokenizer
    first: int
    readouts: Readouts = field(default_factory=Readouts)
    source: str = ""  # what the model was loaded from, for display

    def __repr__(self) -> str:
        """One line, without weights."""
        precision = "tf32" if self.model.tf32 else str(self.model.dtype).removeprefix("torch.")
        return (
            f"<model {self.source}: layers 0..{self.late[-1]}, late layers {self.first}..{self.late[-1]}, "
            f"{self.width} neurons a layer, {precision} on {self.model.device}>"
        )

    @property
    def late(self) -> range:
        """The late layers."""
        return range(self.first, self.model.config.n_layers)

    @property
    def width(self) -> int:
        """Neurons of a layer."""
        return self.model.config.d_mlp

    def by_neuron(self, table: pd.DataFrame, column: str) -> np.ndarray:
        """A column of a table with one row for each late neuron, as (late layers, m); NaN without a row."""
        values = np.full((len(self.late), self.width), np.nan)
        values[table["layer"].to_numpy() - self.first, table["neuron"].to_numpy()] = table[column]
        return values

    def tokens(self, prompts: Sequence[str]) -> Tensor:
        """Token ids (P, T) on the model's device; shorter prompts are padded on the left (`model.batches`)."""
        return torch.from_numpy(self.tokenizer.encode_batch(prompts)).to(self.model.device)

    def answer_tokens(self, answers: np.ndarray) -> Tensor:
        """Token ids (P,) of answers that are numbers, on the model's device."""
        return torch.from_numpy(self.tokenizer.number_tokens(answers)).to(self.model.device)


def load_run(options: RunOptions) -> Run:
    """The model that the options name, with its late layers."""
    model, tokenizer = load_model(options)
    first = first_late_layer(options.late_from, model.config.n_layers)
    lineage.note("first_late_layer", first)
    return Run(model, tokenizer, first, Readouts(full=options.readout == "full"), options.model)


def of_run(run: Run) -> dict[str, Any]:
    """What a table records about the run that made it, apart from its options."""
    near = {"readouts": asdict(run.readouts)} if run.readouts.runs else {}
    return {"device": str(run.model.device), "first_late_layer": run.first, **near}
