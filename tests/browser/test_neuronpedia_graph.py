"""The graph for Neuronpedia's viewer: its form, and its weights against the stored factors."""

import json

import jsonschema
import numpy as np
import pandas as pd
import pytest
from browser_cells import FORMATS, MODEL, PAIRS, read_cell

from form_invariance.browser.neuronpedia_graph import PINNED, graph
from form_invariance.cli import main
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.tables.files import write_table

TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
NAMES = {"slug": "s", "scan": "m", "prompt": "1+2="}
TOKENS = [(0, "<s>"), (5, "1"), (9, "+"), (6, "2"), (8, "=")]


def objects(required, **properties):
    return {"type": "object", "required": required, "properties": properties}


# What Neuronpedia's graph-schema.json (version 1.0.0) requires, and the types of what the viewer reads.
SCHEMA = objects(
    ["metadata", "qParams", "nodes", "links"],
    metadata=objects(
        ["slug", "scan", "prompt_tokens", "prompt"],
        slug=TEXT,
        scan=TEXT,
        prompt=TEXT,
        prompt_tokens={"type": "array", "items": TEXT},
        info=objects([], description=TEXT, generator=objects([], name=TEXT, version=TEXT)),
    ),
    qParams=objects(
        [],
        pinnedIds={"type": "array", "items": TEXT},
        supernodes={"type": "array", "items": {"type": "array", "items": TEXT, "minItems": 2}},
        linkType=TEXT,
        clickedId=TEXT,
        sg_pos=TEXT,
    ),
    nodes={
        "type": "array",
        "items": objects(
            ["node_id", "feature", "layer", "ctx_idx", "feature_type", "jsNodeId", "clerp"],
            node_id=TEXT,
            feature={"type": ["integer", "null"]},
            layer={"type": ["string", "integer"]},
            ctx_idx=WHOLE,
            feature_type={"enum": ["cross layer transcoder", "embedding", "logit"]},
            jsNodeId=TEXT,
            clerp=TEXT,
            influence={"type": ["number", "null"]},
            activation={"type": ["number", "null"]},
        ),
    },
    links={
        "type": "array",
        "items": objects(["source", "target", "weight"], source=TEXT, target=TEXT, weight=NUMBER),
    },
)


@pytest.fixture(scope="module")
def cell(results):
    return read_cell(results / MODEL / FORMATS[0] / "addition")


def checked(made):
    """The graph, once its form holds and every link joins two nodes."""
    jsonschema.Draft7Validator(SCHEMA).validate(made)
    ids = [node["node_id"] for node in made["nodes"]]
    assert len(set(ids)) == len(ids)
    assert {link[end] for link in made["links"] for end in ("source", "target")} <= set(ids)
    assert set(made["qParams"]["pinnedIds"]) <= set(ids)
    assert {name for _, *members in made["qParams"]["supernodes"] for name in members} <= set(ids)
    return made


def test_weights_are_the_direct_effects(cell):
    found, texts = cell.direct
    families = {PAIRS[0]: ["operand range", "result modulo"], PAIRS[7]: ["operand range"], PAIRS[9]: []}
    made = checked(graph(found, texts, 3, TOKENS, 6, families, NAMES))
    weights = {(link["source"], link["target"]): link["weight"] for link in made["links"]}
    units = found.written[3] * found.final_scale[3]
    for row, (layer, neuron) in enumerate(PAIRS[::37]):
        row *= 37
        for place in found.top[3]:
            weight = weights[f"{layer}_{neuron}_4", f"7_{found.answers[place]}_4"]
            assert weight == pytest.approx(units[row] * found.unit_logits[row, place], rel=1e-5)
        for column, (later, other) in enumerate(PAIRS):
            weight = weights.get((f"{layer}_{neuron}_4", f"{later}_{other}_4"), 0.0)
            gate = found.written[3, row] * found.unit_inputs[row, column] * found.input_scale[3, column]
            assert weight == pytest.approx(gate, rel=1e-5)
            assert weight == 0 or layer < later
    nodes = {node["node_id"]: node for node in made["nodes"]}
    assert sum(node["feature_type"] == "cross layer transcoder" for node in made["nodes"]) == len(PAIRS)
    own = nodes[f"{PAIRS[0][0]}_{PAIRS[0][1]}_4"]
    assert own["activation"] == pytest.approx(found.written[3, 0])
    assert own["clerp"] == f"{PAIRS[0][0]}.{PAIRS[0][1]}, operand range, result modulo"
    x, y = PAIRS[0]
    assert own["feature"] == (x + y) * (x + y + 1) / 2 + y
    assert made["qParams"]["supernodes"] == [["operand range", *(f"{a}_{b}_4" for a, b in (PAIRS[0], PAIRS[7]))]]
    first = f"7_{found.answers[found.top[3, 0]]}_4"
    assert made["qParams"]["clickedId"] == first
    push = np.abs(units * found.unit_logits[:, found.top[3, 0]])
    strongest = [f"{PAIRS[i][0]}_{PAIRS[i][1]}_4" for i in np.argsort(-push)[:PINNED]]
    assert made["qParams"]["pinnedIds"] == [*strongest, first]
    probability = np.exp(found.top_logits[3, 0] - found.log_total[3])
    assert nodes[first]["clerp"] == f'Output "{texts[found.top[3, 0]]}" (p={probability:.3f})'
    assert [node["clerp"] for node in made["nodes"][:5]] == [text for _, text in TOKENS]


def command(folder, *words):
    tables = ["--effects", str(folder / "t.st"), "--problems", str(folder / "t.parquet")]
    return main(["neuronpedia-graph", *tables, *words, "--output", str(folder / "graph.json")])


def measured(folder, model, *words, neurons=((2, 3), (2, 60), (3, 11))):
    rows = pd.DataFrame([(4, *place) for place in neurons], columns=["k", "layer", "neuron"], dtype="int64")
    write_table(rows, folder / "c.parquet", CIRCUIT, {})
    given = ["direct-effects", "--model", str(model), *words, "--circuit", str(folder / "c.parquet"), "--k", "4"]
    given += ["--seed", "1", "--max-operand", "6", "--problems", "40", "--output", str(folder / "t.parquet")]
    assert main([*given, "--arrays-output", str(folder / "t.st")]) == 0


LIMITS = ["--operand-min", "0", "--operand-max", "99", "--answer-min", "0", "--answer-max", "199"]
SUM = ["--operator", "addition", "--expression", "a + b", *LIMITS, "--template={a}+{b}="]


def test_the_command_makes_the_graph_of_a_sum_and_of_a_row(tiny_folder, tiny, tmp_path):
    measured(tmp_path, tiny_folder, *SUM)
    model = ["--model", str(tiny_folder)]
    assert command(tmp_path, *model, "--a", "3", "--b", "5", "--scan", "tiny") == 0
    made = checked(json.loads((tmp_path / "graph.json").read_text()))
    assert made["metadata"]["prompt"] == "3+5="
    assert made["metadata"]["prompt_tokens"][1:] == tiny[1].tokens("3+5=")
    assert (made["metadata"]["slug"], made["metadata"]["scan"]) == ("addition-3-5", "tiny")
    assert made["nodes"][-1]["layer"] == str(tiny[0].config.n_layers + 1)
    (tmp_path / "task.csv").write_text("n,answer\n" + "".join(f"{n},{n + 1}\n" for n in range(10, 20)))
    measured(
        tmp_path, tiny_folder, "--operator", "next", "--table", str(tmp_path / "task.csv"), "--template={n}+1="
    )
    assert command(tmp_path, *model, "--a", "4") == 0
    made = checked(json.loads((tmp_path / "graph.json").read_text()))
    assert (made["metadata"]["prompt"], made["metadata"]["slug"]) == ("14+1=", "next-4")


def test_the_prompt_of_a_digit_ends_in_the_digits_before_it(tmp_path):
    digits = "embedded:embedded-digits"
    limits = ["--operand-min", "10", "--operand-max", "99", "--answer-min", "20", "--answer-max", "99"]
    asked = ["--operator", "units", "--expression", "a + b", "--digit", "1", *limits, "--template={a}+{b}="]
    rows = pd.DataFrame([(4, 2, 3)], columns=["k", "layer", "neuron"], dtype="int64")
    write_table(rows, tmp_path / "c.parquet", CIRCUIT, {})
    given = ["direct-effects", "--model", digits, *asked, "--circuit", str(tmp_path / "c.parquet"), "--k", "4"]
    given += ["--seed", "1", "--max-operand", "40", "--problems", "2000", "--output", str(tmp_path / "t.parquet")]
    assert main([*given, "--arrays-output", str(tmp_path / "t.st")]) == 0
    assert command(tmp_path, "--model", digits, "--a", "23", "--b", "19") == 0
    assert json.loads((tmp_path / "graph.json").read_text())["metadata"]["prompt"] == "23+19=4"


def test_bad_input_is_one_sentence(tiny_folder, tmp_path, capsys):
    model = ["--model", str(tiny_folder)]
    measured(tmp_path, tiny_folder, *SUM)
    assert command(tmp_path, *model, "--a", "3", "--b", "50") == 2
    assert "has no problem with these operands; the nearest one is --a 3 --b 5" in capsys.readouterr().err
    keep = (tmp_path / "t.parquet").read_bytes()
    measured(tmp_path, tiny_folder, *SUM[:-1], "--template=x = {a} + {b}\nprint(x)  # ")
    (tmp_path / "t.parquet").write_bytes(keep)
    assert command(tmp_path, *model, "--a", "3", "--b", "5") == 2
    assert "are of different cells; give those of one" in capsys.readouterr().err
    measured(tmp_path, tiny_folder, *SUM, neurons=())
    assert command(tmp_path, *model, "--a", "3", "--b", "5") == 2
    assert "no neuron is shared in this cell" in capsys.readouterr().err
    assert not (tmp_path / "graph.json").exists()
