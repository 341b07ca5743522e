"""One problem's direct effects as an attribution graph, in the form that Neuronpedia's graph viewer reads.

The form: graph-schema.json of github.com/hijohnnylin/neuronpedia (apps/webapp/app/api/graph), with the names of
nodes that circuit-tracer gives them (github.com/safety-research/circuit-tracer). docs/browser.md says what maps to
what.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from form_invariance import __version__
from form_invariance.stages.neuron_effects.direct_files import DirectEffects

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


def graph(
    found: DirectEffects,
    texts: Sequence[str],
    problem: int,
    tokens: Sequence[tuple[int, str]],
    layers: int,
    families: Mapping[tuple[int, int], Sequence[str]],
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
    neurons = [(int(layer), int(number)) for layer, number in found.neurons]
    ids = [f"{layer}_{number}_{last}" for layer, number in neurons]
    nodes = [
        _node(f"E_{token}_{place}", place, "E", place, "embedding", f"E_{token}-{place}", text)
        for place, (token, text) in enumerate(tokens)
    ]
    for name, (layer, number), written in zip(ids, neurons, found.written[problem].tolist(), strict=True):
        label = ", ".join([f"{layer}.{number}", *families.get((layer, number), ())])
        kind, short = "cross layer transcoder", f"{layer}_{number}-0"
        own = _node(name, _paired(layer, number), str(layer), last, kind, short, label)
        nodes.append(own | {"activation": written})
    shown = found.top[problem].tolist()
    answers = {place: f"{layers + 1}_{found.answers[place]}_{last}" for place in shown}
    probabilities = np.exp(found.top_logits[problem] - found.log_total[problem]).tolist()
    for (place, name), probability in zip(answers.items(), probabilities, strict=True):
        token = int(found.answers[place])
        # The viewer reads the probability from the label.
        label = f'Output "{texts[place]}" (p={probability:.3f})'
        own = _node(name, token, str(layers + 1), last, "logit", f"L_{token}-{last}", label)
        nodes.append(own | {"token_prob": probability, "is_target_logit": place == shown[0]})
    units = found.written[problem]
    pushes = units[:, None] * found.final_scale[problem] * found.unit_logits[:, shown]  # (n, answers)
    inputs = units[:, None] * found.unit_inputs * found.input_scale[problem]  # (n, n)
    links = [
        {"source": ids[i], "target": ids[j], "weight": float(inputs[i, j])}
        for i, j in np.argwhere(inputs).tolist()
    ]
    links += [
        {"source": ids[i], "target": answers[place], "weight": float(pushes[i, j])}
        for i in range(len(ids))
        for j, place in enumerate(shown)
    ]
    strongest = np.argsort(-np.abs(pushes[:, 0]), kind="stable")[:PINNED] if ids else []
    groups: dict[str, list[str]] = {}
    for name, place in zip(ids, neurons, strict=True):
        if families.get(place):
            groups.setdefault(families[place][0], []).append(name)
    return {
        "metadata": {
            "slug": names["slug"],
            "scan": names["scan"],
            "prompt_tokens": [text for _, text in tokens],
            "prompt": names["prompt"],
            "info": {
                "description": _DESCRIPTION,
                "generator": {"name": "form-invariance", "version": __version__},
            },
        },
        "qParams": {
            "pinnedIds": [*(ids[i] for i in strongest), answers[shown[0]]],
            "supernodes": [[family, *members] for family, members in sorted(groups.items())],
            "linkType": "both",
            "clickedId": answers[shown[0]],
            "sg_pos": "",
        },
        "nodes": nodes,
        "links": links,
    }
