"""One problem's direct effects as an attribution graph, in the form that Neuronpedia's graph viewer reads.

The form: graph-schema.json of github.com/hijohnnylin/neuronpedia (apps/webapp/app/api/graph), with the names of
nodes that circuit-tracer gives them (github.com/safety-research/circuit-tracer). results/README.md says what maps
to what.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from form_invariance import __version__
from form_invariance.stages.neuron_effects.direct_files import DirectEffects

Families = Mapping[tuple[int, int], Sequence[str]]
"""By layer and number of a neuron."""
PINNED = 10
"""Neurons that are shown first: those that push the model's answer most."""
_DESCRIPTION = (
    "Nodes of a layer are MLP neurons at the last token, not features of a transcoder. A link to an answer is the "
    "neuron's direct effect on its logit, centred over the vocabulary; a link to a neuron is what the other one "
    "adds to the input of its gate. Both leave out the layers between, and take the norms' scales from the "
    "model's own pass. Only shared neurons of late layers are measured, so tokens have no links."
)


def _paired(x: int, y: int) -> int:
    """Cantor's number of two whole numbers, by which the viewer knows a node of a layer."""
    return (x + y) * (x + y + 1) // 2 + y


def _node(name: str, feature: int, layer: str, position: int, kind: str, short: str, label: str) -> dict[str, Any]:
    return {
        "node_id": name,
        "feature": feature,
        "layer": layer,
        "ctx_idx": position,
        "feature_type": kind,
        "jsNodeId": short,
        "clerp": label,
        "influence": None,
        "activation": None,
    }


def _neuron_nodes(found: DirectEffects, problem: int, last: int, families: Families) -> list[dict[str, Any]]:
    """A node for each neuron, in their order; its activation is what it writes."""
    nodes = []
    for (layer, number), written in zip(found.neurons.tolist(), found.written[problem].tolist(), strict=True):
        label = ", ".join([f"{layer}.{number}", *families.get((layer, number), ())])
        name, short, kind = f"{layer}_{number}_{last}", f"{layer}_{number}-0", "cross layer transcoder"
        own = _node(name, _paired(layer, number), str(layer), last, kind, short, label)
        nodes.append(own | {"activation": written})
    return nodes


def _answer_nodes(
    found: DirectEffects, texts: Sequence[str], problem: int, last: int, layers: int
) -> list[dict[str, Any]]:
    """A node for each of the model's best answers, the best first."""
    nodes = []
    probabilities = np.exp(found.top_logits[problem] - found.log_total[problem]).tolist()
    for rank, (place, probability) in enumerate(zip(found.top[problem].tolist(), probabilities, strict=True)):
        token, layer = int(found.answers[place]), str(layers + 1)
        # The viewer reads the probability from the label.
        label = f'Output "{texts[place]}" (p={probability:.3f})'
        own = _node(f"{layer}_{token}_{last}", token, layer, last, "logit", f"L_{token}-{last}", label)
        nodes.append(own | {"token_prob": probability, "is_target_logit": rank == 0})
    return nodes


def _links(weights: np.ndarray, sources: Sequence[str], targets: Sequence[str]) -> list[dict[str, Any]]:
    """The links of a matrix (sources, targets), but for those without weight."""
    return [
        {"source": sources[i], "target": targets[j], "weight": float(weights[i, j])}
        for i, j in np.argwhere(weights).tolist()
    ]


def graph(
    found: DirectEffects,
    texts: Sequence[str],
    problem: int,
    tokens: Sequence[tuple[int, str]],
    layers: int,
    families: Families,
    names: Mapping[str, str],
) -> dict[str, Any]:
    """The graph of one problem.

    Args:
        found: direct effects of a cell.
        texts: of its answers.
        problem: the problem's row.
        tokens: ids and texts of the prompt's tokens.
        layers: of the whole model.
        families: the heuristic families that label a neuron, by layer and number.
        names: slug (the graph's name), scan (the model's name in the viewer), prompt (its text).
    """
    last = len(tokens) - 1
    embedded = [
        _node(f"E_{token}_{place}", place, "E", place, "embedding", f"E_{token}-{place}", text)
        for place, (token, text) in enumerate(tokens)
    ]
    neurons = _neuron_nodes(found, problem, last, families)
    answers = _answer_nodes(found, texts, problem, last, layers)
    ids, ends = ([node["node_id"] for node in nodes] for nodes in (neurons, answers))
    units = found.written[problem][:, None]
    pushes = units * found.final_scale[problem] * found.unit_logits[:, found.top[problem]]  # (n, answers)
    inputs = units * found.unit_inputs * found.input_scale[problem]  # (n, n)
    strongest = np.argsort(-np.abs(pushes[:, 0]), kind="stable")[:PINNED].tolist()
    groups: dict[str, list[str]] = {}
    for name, (layer, number) in zip(ids, found.neurons.tolist(), strict=True):
        if own := families.get((layer, number)):
            groups.setdefault(own[0], []).append(name)
    generator = {"name": "form-invariance", "version": __version__}
    return {
        "metadata": {
            **names,
            "prompt_tokens": [text for _, text in tokens],
            "info": {"description": _DESCRIPTION, "generator": generator},
        },
        "qParams": {
            "pinnedIds": [*(ids[i] for i in strongest), ends[0]],
            "supernodes": [[family, *members] for family, members in sorted(groups.items())],
            "linkType": "both",
            "clickedId": ends[0],
            "sg_pos": "",
        },
        "nodes": [*embedded, *neurons, *answers],
        "links": [*_links(inputs, ids, ids), *_links(pushes, ids, ends)],
    }
