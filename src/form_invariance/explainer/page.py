"""The explained page: one HTML file that contains six steps with their pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.drawing.neuron_sets import TITLES
from form_invariance.experiment.answers import Answer
from form_invariance.experiment.neuron_sets import CONTROLS
from form_invariance.explainer import pictures, steps
from form_invariance.explainer.example import choose_example, choose_neuron, labelled_everywhere
from form_invariance.page.make import data_uri, make_page
from form_invariance.stages.census.answer import QUESTION as CENSUS_QUESTION
from form_invariance.stages.circuit.table import neurons_of
from form_invariance.stages.heuristics.map_files import ActivationMaps
from form_invariance.stages.overlap.table import all_formats


@dataclass(frozen=True)
class Explained:
    """The data of one model and operator from which the page is made.

    Attributes:
        question: what the operator asks, in words.
        k: circuit size that the page speaks of.
        tables: by name; tables of formats have the column format, in the formats' order.
        ranking: the configuration's key `ranking`: by what the neurons are ranked.
        effects: tensors of the first format's effects.
        maps: by format; empty where the operator is a table of words.
        stages: the pictures of stages beyond the paper's; None where there is nothing to draw.
        answers: the report's answers, to whose sections the page links.
    """

    model: str
    operator: str
    question: str
    k: int
    ranking: str
    tables: Mapping[str, pd.DataFrame]
    effects: Mapping[str, np.ndarray]
    maps: Mapping[str, ActivationMaps]
    stages: Mapping[str, Figure | None]
    answers: Sequence[Answer]


def _contents(explained: Explained) -> dict[str, Any]:
    """The values that the template shows in each step."""
    tables, k = explained.tables, explained.k
    ranking, overlap = tables["ranking"], tables["overlap"]
    shared = neurons_of(tables["circuit"], k)
    labelled = labelled_everywhere(tables["heuristics"]) if explained.maps else shared.head(0)
    neuron = choose_neuron(ranking, shared, labelled)
    example = choose_example(tables, explained.effects, neuron)
    effects = steps.effects_in_layer(ranking, neuron[0], k)
    membership = str(overlap.loc[overlap["used"], "membership"].iloc[0])
    members = steps.members(ranking, neuron[0], k, membership)
    drawn = {"effects": pictures.effects_picture(effects, neuron[1]), "members": pictures.members_picture(members)}
    if len(shared):
        drawn["ablations"] = pictures.ablations_picture(steps.ablations(tables, explained.operator, k))
    drawn |= {stage: figure for stage, figure in explained.stages.items() if figure}
    mapped = bool(explained.maps) and len(shared) > 0
    drawn["neuron"] = (
        pictures.maps_picture(explained.maps, neuron) if mapped else pictures.formats_picture(ranking, neuron, k)
    )
    return {
        "example": example,
        "problem": example.rows.iloc[0],
        "posed": steps.posed(tables["census"], example),
        "late": sorted(ranking["layer"].unique()),
        "layer": neuron[0],
        "neuron": neuron[1],
        "shared": len(shared),
        "labelled": len(labelled),
        "effects": effects,
        "mean_effect": float(effects.loc[effects["neuron"] == neuron[1], "ie_mean"].iloc[0]),
        "controls": [TITLES[name] for name in CONTROLS],
        "share_of_best": steps.share_of_best(effects),
        "membership": membership,
        "members": members,
        "overlap": all_formats(overlap[overlap["k"] == k]).iloc[0],
        "in_formats": steps.in_formats(tables, neuron),
        "mapped": mapped,
        "verdicts": steps.verdicts(tables["verdicts"], k),
        "pictures": {name: data_uri(style.svg(figure).encode()) for name, figure in drawn.items()},
    }


def render(explained: Explained) -> str:
    """The page."""
    return make_page(
        Path(__file__).parent,
        model=explained.model,
        operator=explained.operator,
        asked=explained.question,
        k=explained.k,
        ranking=explained.ranking,
        stages=list(explained.stages),
        formats=list(explained.tables["ranking"]["format"].unique()),
        # The report's answers by the figures that they show, and by their questions.
        sections={name: answer for answer in explained.answers for name in (*answer.figures, answer.question)},
        census=CENSUS_QUESTION,
        **_contents(explained),
    )
