"""Every command after the ranking, on a model whose circuit was built by hand, from its tables to the report."""

import json
import re
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from planted_run import contrasts_of, run, run_stages, transfer_contrasts_of, transfers
from pretended_gpu import CARD, pretended_gpu
from safetensors.torch import load_file
from settings import complete

from bench.llama_shaped import mark_as_right
from form_invariance.cli import main
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.stages.heuristics import labels
from form_invariance.stages.planted import construction
from form_invariance.stages.planted.construction import LATE, PLANTED, TEMPLATES, planted_neurons
from form_invariance.stages.summary.table import QUESTIONS
from form_invariance.tables.files import provenance_of, read_table, read_tensors, write_table, write_tensors

pytestmark = pytest.mark.slow

MODEL, OPERATOR = "planted", "addition"
LIMITS = [f"--{key.replace('_', '-')}={value}" for key, value in vars(construction.LIMITS).items()]
OF_CELLS = ("census", "interventions", "heuristics", "heads", "ranking", "neuron_effects")
DIRECT = {"direct_effects": "direct_effects.parquet", "direct_effect_factors": "direct_effects.safetensors"}
OF_OPERATORS = (
    "overlap",
    "reliability",
    "paraphrases",
    "dose",
    "agreement",
    "labelled",
    "head_overlap",
    "faithfulness",
)
OF_MODELS = ("audit", "operator_overlap", "differing", "specificity", "specificity_contrasts")
FIGURES = {
    ("probe", "probe"): ("probe", "across"),
    ("probe", "probe_positions"): ("probe",),
    ("overlap", "overlap"): ("overlap", "reliability", "operator_overlap"),
    ("overlap", "differing"): ("differing",),
    ("specificity", "specificity"): ("specificity",),
    ("specificity", "exchange"): ("specificity",),
    ("paraphrases", "paraphrases"): ("paraphrases",),
    ("family_knockout", "family_knockout"): ("family_knockout",),
    ("disagreement", "disagreement"): ("disagreement", "format_correlation"),
    ("dose", "dose"): ("dose",),
    ("transfer", "transfer"): ("transfer",),
    ("transfer", "transfer_contrasts"): ("transfer_contrasts",),
    ("agreement", "heuristics"): ("heuristics", "agreement", "labelled"),
    ("heads", "heads"): ("heads", "head_overlap"),
    ("interventions", "keep_only"): ("interventions",),
    ("interventions", "knockout"): ("interventions",),
    ("audit", "audit"): ("audit",),
    ("faithfulness", "faithfulness"): ("faithfulness",),
}
"""Stage and name of each figure, and the tables that it is drawn from."""
ANSWERING = (
    "census",
    "probe",
    "overlap",
    "heads",
    "paraphrases",
    "disagreement",
    "interventions",
    "transfer",
    "audit",
    "agreement",
    "family_knockout",
    "dose",
    "faithfulness",
    "specificity",
    "summary",
)
ANSWERED = {
    *ANSWERING,
    "intervention_contrasts",
    "transfer_contrasts",
    "reliability",
    "head_overlap",
    "specificity_contrasts",
    "format_correlation",
    "verdicts",
    "labelled",
} - {"interventions"}
GRID = ("--expression", construction.EXPRESSION, "--max-operand", 30)
NAMED, SIZE, TITLE = ("--operator", OPERATOR), ("--k", PLANTED), ("--title", MODEL)


class Run:
    """The files of a run, laid out as `results` is."""

    def __init__(self, results):
        self.results, self.folder = results, results / MODEL
        self.null = self.shared("null.safetensors")
        self.on_model = ("--model", results / "model", "--device", "cpu")

    def cell(self, name, table):
        return self.folder / name / OPERATOR / table

    def shared(self, table):
        return self.cell("shared", table)

    def of_operator(self, table):
        return f"{OPERATOR}={self.shared(table)}"

    def each(self, table, key="{}"):
        """KEY=FILE of every format."""
        return [f"{key.format(name)}={self.cell(name, table)}" for name in TEMPLATES]

    def means(self):
        """FORMAT=FILE of every format's mean cache."""
        return [f"{name}={self.folder / name / 'mean_cache.safetensors'}" for name in TEMPLATES]

    def figure(self, name):
        return [self.results / f"figures/{MODEL}/{name}.{kind}" for kind in ("png", "svg")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """What the rules would run, in their order and with their options."""
    own = Run(tmp_path_factory.mktemp("results"))
    construction.write_model(own.results / "model", True, seed=0)
    run("heuristic-null", *GRID, "--output", own.null)
    on_the_model(own)
    draw(own)
    draw_summary(own)
    pages(own)
    return own


def on_the_model(own):
    """Every command that runs the model, and those between them."""
    run_stages(own.on_model[1], own.folder, seed=0, how=own.on_model[2:])
    for name in TEMPLATES:
        of_one_format(own, name)
    of_all_formats(own)


def of_one_format(own, name):
    """Probe, paraphrase, single neurons and heuristics."""
    census = ("--census", f"{name}/{OPERATOR}={own.cell(name, 'census.parquet')}")
    run("probe", *own.on_model, *census, "--prompts", 600, "--output", own.folder / name / "probe.parquet")
    dataset, corrupt = (own.cell(name, f"{table}.parquet") for table in ("dataset", "corrupt"))
    variant = (f"--variant={OPERATOR}={TEMPLATES[name]}", "--expression", construction.EXPRESSION)
    drawn = ("--dataset", dataset, "--corrupt-table", corrupt)
    effects = own.cell(name, "paraphrase_effects.safetensors")
    run("paraphrase-effects", *own.on_model, *NAMED, *variant, *drawn, *LIMITS, "--output", effects)
    circuit = ("--circuit", own.shared("circuit.parquet"), *SIZE)
    means = ("--dataset", dataset, "--mean-cache", own.folder / name / "mean_cache.safetensors")
    run("neuron-effects", *own.on_model, *circuit, *means, "--output", own.cell(name, "neuron_effects.parquet"))
    drawn = own.shared("labelled_neurons.parquet")
    inputs = ("--rankings", *own.each("ranking.parquet"), "--mean-caches", *own.means())
    written = ("--output", own.cell(name, "direct_effects.parquet"), "--arrays-output")
    asked = (*NAMED, *GRID, *LIMITS, f"--template={TEMPLATES[name]}", "--problems", 40, *circuit)
    run("direct-effects", *own.on_model, *asked, *written, own.cell(name, "direct_effects.safetensors"))
    run("heuristics", "draw", *NAMED, *circuit, *inputs, "--output", drawn)
    problem = (*GRID, f"--template={TEMPLATES[name]}", "--null", own.null, "--neurons", drawn)
    table, maps = (own.cell(name, file) for file in ("heuristics.parquet", "activation_maps.safetensors"))
    run("heuristics", "label", *own.on_model, *NAMED, *problem, "--output", table, "--maps-output", maps)


def of_all_formats(own):
    """Probe over formats, paraphrases, heads, dose, agreement and audit."""
    censuses = ("--census", *own.each("census.parquet", "{}/addition"))
    run("probe", *own.on_model, *censuses, "--prompts", 600, "--output", own.folder / "shared/probe.parquet")
    effects = ("--effects", *own.each("indirect_effects.safetensors"), *SIZE, "--bootstrap", 20)
    variants = ("--paraphrase-effects", *own.each("paraphrase_effects.safetensors"))
    run("paraphrases", *effects, *variants, "--output", own.shared("paraphrases.parquet"))
    of_cells = ("--effects", *own.each("indirect_effects.safetensors", "{}/addition"), "--bootstrap", 20)
    drawn = ("--datasets", *own.each("dataset.parquet", "{}/addition"))
    drawn += ("--corrupt-tables", *own.each("corrupt.parquet", "{}/addition"))
    variants = ("--paraphrase-effects", *own.each("paraphrase_effects.safetensors", "{}/addition"))
    tables = [own.folder / f"shared/{name}.parquet" for name in ("disagreement", "format_correlation")]
    run("disagreement", *of_cells, *drawn, *variants, "--output", tables[0], "--correlation-output", tables[1])
    train = ("--datasets", *own.each("dataset.parquet"), "--corrupt-tables", *own.each("corrupt.parquet"))
    effects, tables = (
        own.shared("head_effects.safetensors"),
        [own.cell(name, "heads.parquet") for name in TEMPLATES],
    )
    run("heads", *own.on_model, *train, "--effects-output", effects, "--output", *tables)
    run("head-overlap", "--effects", effects, "--heads", 1, 2, "--output", own.shared("head_overlap.parquet"))
    circuit = ("--circuit", own.shared("circuit.parquet"), *SIZE)
    moved = ("--census", *own.each("census.parquet"), *circuit, "--pairs", 200)
    moved += ("--exclude-train", *(own.cell(name, "dataset.parquet") for name in TEMPLATES))
    doses = ("--rankings", *own.each("ranking.parquet"), "--dose", 0, 0.5, 1, "--random-seeds", 2)
    run("dose", *own.on_model, *NAMED, *moved, *doses, "--output", own.shared("dose.parquet"))
    drawn = ("--neurons", own.shared("labelled_neurons.parquet"))
    labels = ("--heuristics", *own.each("heuristics.parquet"), *drawn, "--permutations", 50)
    files = ("--output", own.shared("agreement.parquet"), "--labelled-output", own.shared("labelled.parquet"))
    run("agreement", *NAMED, *labels, *files)
    every = (("--rankings", "ranking"), ("--dataset", "dataset"), ("--corrupt-table", "corrupt"))
    cells = [one for option, file in every for one in (option, *own.each(f"{file}.parquet", "{}/addition"))]
    run("audit", *own.on_model, *cells, "--k", 4, PLANTED, "--output", own.folder / "shared/audit.parquet")
    tables = (("--dataset", "dataset"), ("--attribution", "attribution"), ("--rankings", "ranking"))
    files = [one for option, table in tables for one in (option, *own.each(f"{table}.parquet"))]
    sizes = ("--mean-cache", *own.means(), "--random-seeds", 2, "--bootstrap", 20)
    run("faithfulness", *own.on_model, *NAMED, *files, *sizes, "--output", own.shared("faithfulness.parquet"))
    effects = ("--effects", *own.each("indirect_effects.safetensors", "{}/addition"), *SIZE, "--bootstrap", 20)
    differing = ("--differing-output", own.folder / "shared/differing.parquet")
    run("operator-overlap", *effects, "--output", own.folder / "shared/operator_overlap.parquet", *differing)
    whose_circuit(own)
    labelled_families(own)
    judged(own)


def whose_circuit(own):
    """The one operator's circuit on its own prompts, on copying and on plain text."""
    tables = {"--dataset": "dataset.parquet", "--rankings": "ranking.parquet"}
    given = [word for option, table in tables.items() for word in (option, *own.each(table, "{}/addition"))]
    means = [f"{name}/{OPERATOR}={own.folder / name / 'mean_cache.safetensors'}" for name in TEMPLATES]
    circuit = ("--circuit", own.of_operator("circuit.parquet"), "--mean-cache", *means, *SIZE, *LIMITS)
    task = ("--task", "copying=a", "--task-template", "symbolic/copying={a}={a}=")
    names = ("specificity", "specificity_contrasts")
    table, contrasts = (own.folder / f"shared/{name}.parquet" for name in names)
    run("specificity", *own.on_model, *given, *circuit, *task, "--output", table, "--contrasts-output", contrasts)


def labelled_families(own):
    """The labelled neurons knocked out where their rule holds, and where it does not."""
    cells = ("--heuristics", *own.each("heuristics.parquet", "{}/addition"))
    cells += ("--datasets", *own.each("dataset.parquet", "{}/addition"))
    cells += ("--census", *own.each("census.parquet", "{}/addition"))
    table = own.folder / "shared/family_knockout.parquet"
    run(
        "family-knockout",
        *own.on_model,
        *cells,
        "--max-operand",
        30,
        "--prompts",
        100,
        *SIZE,
        "--bootstrap",
        20,
        "--output",
        table,
    )


def judged(own):
    """The verdicts on the model."""
    given = inputs(own)
    names = ("overlap", "differing", "intervention_contrasts", "transfer_contrasts", "specificity_contrasts")
    tables = [word for name in names for word in given[name]]
    run("summary", "--tables", *tables, "--bootstrap", 20, "--output", own.folder / "shared/verdicts.parquet")


def inputs(own):
    """INPUT/KEY=FILE of every table that a figure or an answer is made from, by input."""
    of_cells = {name: own.each(f"{name}.parquet", f"{name}/{{}}/{OPERATOR}") for name in OF_CELLS}
    of_operators = {name: [f"{name}/{own.of_operator(f'{name}.parquet')}"] for name in OF_OPERATORS}
    probes = [f"probe/{name}={own.folder / name / 'probe.parquet'}" for name in TEMPLATES]
    others = {
        "probe": probes,
        "across": [f"across={own.folder / 'shared/probe.parquet'}"],
        **{
            name: [f"{name}={own.folder / f'shared/{name}.parquet'}"]
            for name in (*OF_MODELS, "family_knockout", "disagreement", "format_correlation", "verdicts")
        },
        "intervention_contrasts": [f"intervention_contrasts={contrasts_of(own.folder)}"],
        "transfer": [f"transfer/{word}" for word in directions(own)],
        "transfer_contrasts": [f"transfer_contrasts={transfer_contrasts_of(own.folder)}"],
    }
    return {**of_cells, **of_operators, **others}


def draw(own):
    """Every figure of the model."""
    given = inputs(own)
    for (stage, figure), names in FIGURES.items():
        tables = [word for name in names for word in given[name]]
        run("figure", stage, figure, "--tables", *tables, *TITLE, "--output", *own.figure(figure))


def directions(own):
    return [f"{OPERATOR}/{direction}={path}" for direction, path in transfers(own.folder).items()]


def draw_summary(own):
    """The figures of all models, and the ground truth that one of them shows."""
    folder, all_models = own.results / "figures", ("--title", "all models")
    templates = [f"--template={name}/{OPERATOR}={text}" for name, text in TEMPLATES.items()]
    prompts = ("--operands", 7, 8, "--output", folder / "prompt_formats.svg")
    run("prompt-formats", *own.on_model[:2], *templates, *prompts)
    tables = ("--tables", f"verdicts/{MODEL}={own.folder / 'shared/verdicts.parquet'}")
    run("figure", "summary", "summary", *tables, *all_models, "--output", folder / "summary.svg")
    table = own.results / "planted.parquet"
    run("planted", "--output", table)
    drawn = ("--tables", f"planted={table}", *all_models, "--output", folder / "planted.svg")
    run("figure", "planted", "planted", *drawn)


def pages(own):
    """The browser, the paper's tables, the answers and the report."""
    given, maps = inputs(own), own.each("activation_maps.safetensors", f"activation_maps/{{}}/{OPERATOR}")
    shown = [word for name in ("ranking", "heuristics", "neuron_effects") for word in given[name]]
    shown += [word for table, file in DIRECT.items() for word in own.each(file, f"{table}/{{}}/{OPERATOR}")]
    problem = ("--operators", f"{OPERATOR}={construction.EXPRESSION}", "--tables", *shown, *maps)
    run("browser", "--model", MODEL, "--models", MODEL, *problem, *SIZE, "--output", own.results / "browser.html")
    run("paper-tables", "--source", f"{MODEL}={own.results / 'model'}", *paper_tables(own, own.results / "tables"))
    answers = own.folder / "answers.json"
    tables = [word for name, words in given.items() if name in ANSWERED for word in words]
    run("answers", "--stages", *ANSWERING, "--tables", *tables, *SIZE, "--output", answers)
    explain(own, answers)
    figures, of_paper = own.results / "figures", sorted((own.results / "tables").glob("*.csv"))
    files = (
        *("--answers", f"{MODEL}={answers}", "--planted", own.results / "planted.parquet"),
        *("--figures", *(f"{MODEL}/{name}={own.figure(name)[1]}" for _, name in FIGURES)),
        *("--compared", *(f"{name}={figures / name}.svg" for name in ("summary", "prompt_formats", "planted"))),
        *("--paper-tables", *(f"{path.stem}={path}" for path in of_paper)),
    )
    benchmarks = own.results / "benchmarks"
    run(
        "report",
        *files,
        "--benchmarks",
        benchmarks,
        "--configuration",
        "seed: 0",
        "--output",
        own.results / "report.html",
    )


def explain(own, answers):
    """The page that explains the experiment by one problem."""
    first = next(iter(TEMPLATES))
    names = ("census", "ranking", "interventions", "heuristics")
    tables = [word for name in names for word in own.each(f"{name}.parquet", f"{name}/{{}}")]
    tables += [f"{name}={own.cell(first, f'{name}.parquet')}" for name in ("dataset", "corrupt")]
    tables += [f"{name}={own.shared(f'{name}.parquet')}" for name in ("circuit", "overlap")]
    tables += [word for name in ("intervention_contrasts", "verdicts") for word in inputs(own)[name]]
    problem = ("--model", MODEL, *NAMED, "--asked", construction.EXPRESSION, "--tables", *tables, *SIZE)
    files = ("--maps", *own.each("activation_maps.safetensors"), "--answers", answers)
    files += ("--effects", own.cell(first, "indirect_effects.safetensors"))
    run("explainer", *problem, *files, "--output", own.results / "explained.html")


def paper_tables(own, to):
    """The options of the tables of the paper, but for the model's source."""
    of_cells = MODEL + "/{}/addition"
    return (
        *("--census", *own.each("census.parquet", of_cells)),
        *("--probes", *(f"{MODEL}/{name}={own.folder / name / 'probe.parquet'}" for name in TEMPLATES)),
        *("--heuristics", *own.each("heuristics.parquet", of_cells)),
        *("--agreement", f"{MODEL}/{own.of_operator('agreement.parquet')}"),
        *("--labelled", f"{MODEL}/{own.of_operator('labelled.parquet')}", "--output-folder", to),
    )


def test_every_file_says_what_made_it(finished):
    files = [*finished.folder.rglob("*.parquet"), finished.results / "planted.parquet"]
    assert len(files) > 50
    for path in files:
        assert provenance_of(path), path


def test_the_answer_can_be_read_at_the_last_token_alone(finished):
    for name in TEMPLATES:
        probe = pd.read_parquet(finished.folder / name / "probe.parquet").query("operator == 'all'")
        last, first = (probe[probe["position"] == position] for position in (0, probe["position"].max()))
        assert last["accuracy"].max() > 0.5
        assert (first["accuracy"] <= first["majority"] + 0.05).all()
    across = pd.read_parquet(finished.folder / "shared/probe.parquet")
    assert set(across["trained"]) == {*TEMPLATES, "+".join(TEMPLATES)}
    assert set(across["position"]) == {0}


def test_the_audit_knows_how_many_candidates_would_do(finished):
    audit = pd.read_parquet(finished.folder / "shared/audit.parquet").query("layer == -1 and k == @PLANTED")
    assert set(audit["method"]) == {"attribution", "integrated_gradients", "relp"}
    recall = audit.pivot(index=["format", "operator", "method"], columns="candidates", values="recall")
    assert (recall.loc[:, recall.columns >= PLANTED] == 1).all(axis=None)
    assert (recall[1] == 1 / PLANTED).all()


def test_the_planted_neurons_are_faithful_and_random_ones_are_not(finished):
    table = pd.read_parquet(finished.shared("faithfulness.parquet"))
    area = table.pivot_table(index=["ablation", "order"], columns="measure", values="value")
    # From 20 % of a layer on all planted neurons are kept; below it, a part of them.
    for order in ("exact", "shared"):
        assert (area.xs(order, level="order")["cpr"] > 0.85).all()
        assert (area.xs(order, level="order")["cmd"] < 0.15).all()
    curve = table[table["measure"] == "faithfulness"].set_index(["order", "share"])["value"].sort_index()
    assert curve.loc[[("exact", 0.2), ("exact", 0.5), ("shared", 0.2)]].to_numpy() == pytest.approx(1, abs=1e-3)
    assert (curve.loc[[("random", 0.1)]] < 0.5).all()


def test_the_whole_dose_is_the_transfer(finished):
    dose = (
        pd.read_parquet(finished.shared("dose.parquet"))
        .set_index(["donor", "target", "kind", "seed", "dose"])
        .sort_index()
    )
    for direction, path in transfers(finished.folder).items():
        donor, target = direction.split("_to_")
        moved = pd.read_parquet(path).set_index("condition").loc["matched"]
        own = dose.loc[(donor, target, "strength", -1)]
        assert own.loc[1.0, "pairs"] == moved["pairs"]
        if moved["pairs"]:
            assert own.loc[1.0, "recovered"] == moved["recovered"] == 1
            assert own.loc[0.0, "recovered"] == 0


def test_a_variant_that_is_the_template_has_its_circuit(finished):
    variants = pd.read_parquet(finished.shared("paraphrases.parquet"))
    own = variants[variants["first_format"] == variants["second_format"]]
    assert len(own) == len(TEMPLATES) * (1 + len(LATE))
    assert (own["right"] == own["asked"]).all()
    assert (own[["jaccard", "effect_of_first", "effect_of_second"]].dropna() == 1).all(axis=None)


def test_a_variant_that_is_the_template_is_no_other_wording(finished):
    table = pd.read_parquet(finished.folder / "shared/disagreement.parquet").query("layer == -1")
    share = table[table["operator"] == OPERATOR].set_index("component")["share"]
    assert share["wording"] == pytest.approx(0, abs=1e-9)
    assert share["format"] == pytest.approx(share["template"], abs=1e-9)
    related = pd.read_parquet(finished.folder / "shared/format_correlation.parquet").query("layer == -1")
    assert (related["spearman"] <= 1).all()
    assert (related["pearson"] > 0.5).all()


def test_single_neurons_are_those_that_were_planted(finished):
    planted = planted_neurons(True, seed=0)
    for name in TEMPLATES:
        effects = pd.read_parquet(finished.cell(name, "neuron_effects.parquet"))
        for layer, own in effects.groupby("layer"):
            assert own["neuron"].tolist() == planted[name, layer]
        assert (effects["knockout_normalized_logit"] < 0).mean() > 0.8


def test_the_head_that_reads_the_operands_is_the_best_in_every_format(finished):
    for name in TEMPLATES:
        heads = pd.read_parquet(finished.cell(name, "heads.parquet")).sort_values("rank")
        assert (heads["layer"].iloc[0], heads["ie_mean"].iloc[0] > 1) == (0, True)
        np.testing.assert_allclose(heads[["attention_a", "attention_b"]].iloc[0], 0.5, atol=1e-3)
        assert (heads["ie_mean"].iloc[1:].abs() < 1e-6).all()
    overlap = pd.read_parquet(finished.shared("head_overlap.parquet")).query("h == 1")
    assert (overlap["jaccard"] == 1).all()


def test_maps_of_planted_neurons_grow_with_the_sum(finished):
    for name in TEMPLATES:
        tensors, provenance = read_tensors(finished.cell(name, "activation_maps.safetensors"), "activation_maps")
        assert provenance["template"] == TEMPLATES[name]
        sums = tensors["a"] + tensors["b"]
        assert (tensors["answer"] == sums).all()
        for codes in tensors["codes"]:
            assert np.corrcoef(codes, sums)[0, 1] > 0.999


def test_every_format_shuffles_its_activations_on_its_own(finished, tmp_path, monkeypatch):
    shuffles = []
    monkeypatch.setattr(labels, "shuffled", lambda maps, seed, *names: shuffles.append((seed, *names)) or maps)
    drawn = ("--neurons", finished.shared("labelled_neurons.parquet"), "--expression", construction.EXPRESSION)
    drawn += ("--null", finished.null)
    files = ("--output", tmp_path / "heuristics.parquet", "--maps-output", tmp_path / "maps.safetensors")
    for name in TEMPLATES:
        cell = ("--max-operand", 30, f"--template={TEMPLATES[name]}")
        run("heuristics", "label", *finished.on_model, *NAMED, *drawn, *cell, *files)
    assert len(set(shuffles)) == len(TEMPLATES)


def test_the_report_answers_every_question(finished):
    page = (finished.results / "report.html").read_text()
    said = re.findall(r"<h2[^>]*>([^<]*?)</h2>.*?<h3>.*?</h3>\s*<p[^>]*>(.*?)</p>", page, re.DOTALL)
    # Interventions and agreement have two questions each, the planted models one of their own; verdicts are above.
    assert len(said) == len(ANSWERING) + 2
    assert page.count('<tr><th scope="row">') == len(QUESTIONS)
    answers = dict(said)
    assert "to 100.0% (code addition)" in answers["Can the model do the problems?"]
    assert "keep faithfulness 1.000 (" in answers["Do the shared neurons suffice?"]
    for question in ("Do the shared neurons suffice?", "Are the shared neurons needed?"):
        assert answers[question].endswith("By probability, the primary metric: yes.")
    assert (
        "100% of the wrong answers become correct"
        in answers["Do a format&#39;s activations correct another&#39;s answers?"]
    )
    assert "contain 100% by attribution" in answers["Can the ranking&#39;s first stage be trusted?"]
    assert page.count("data:image/svg+xml;base64,") == 3 + len(FIGURES)


def test_the_explained_page_finds_the_planted_circuit(finished):
    page = " ".join(re.sub(r"<[^>]+>", " ", (finished.results / "explained.html").read_text()).split())
    both = len(LATE) * PLANTED
    assert f"Over all these layers, {both} of {both} are shared: an overlap of 100.0%" in page
    assert "Necessary? yes" in page
    report = (finished.results / "report.html").read_text()
    assert set(re.findall(r'id="([^"]+)"', report)) >= set(
        re.findall(r'href="report.html#([^"]+)"', (finished.results / "explained.html").read_text())
    )


def test_figures_are_whole(finished):
    files = sorted((finished.results / "figures").rglob("*"))
    drawn = [path for path in files if path.is_file()]
    assert len(drawn) == 3 + 2 * len(FIGURES)
    for path in drawn:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG") if path.suffix == ".png" else content.rstrip().endswith(b"</svg>")


def test_the_browser_shows_every_planted_neuron(finished):
    page = (finished.results / "browser.html").read_text()
    data = page.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    shown = json.loads(data)["operators"][OPERATOR]["neurons"]
    planted = planted_neurons(True, seed=0)
    expected = {(layer, neuron) for layer in LATE for neuron in planted["word", layer]}
    assert {(one["layer"], one["neuron"]) for one in shown} == expected
    assert all(max(one["rank"]) <= PLANTED for one in shown)


@pytest.fixture(scope="module")
def on_card(finished, tmp_path_factory):
    """The same on a pretended graphics card, and how many operations ran there."""
    own = Run(tmp_path_factory.mktemp("card"))
    own.null = finished.null
    own.on_model = ("--model", finished.results / "model", "--device", CARD.type)
    with pretended_gpu() as card:
        on_the_model(own)
    return own, card.operations


def test_a_card_gives_the_same_files(finished, on_card):
    own, operations = on_card
    assert operations > 10_000
    paths = [path.relative_to(own.folder) for path in own.folder.rglob("*") if path.is_file()]
    assert len(paths) > 50
    for path in paths:
        here, there = finished.folder / path, own.folder / path
        if path.suffix == ".safetensors":
            for name, values in load_file(here).items():
                torch.testing.assert_close(load_file(there)[name], values, rtol=0, atol=0, equal_nan=True)
        else:
            # Where gradients are asked for, the pretended card's attention is another one than the CPU's.
            close = (
                {"rtol": 1e-4, "atol": 1e-5} if path.stem in ("attribution", "ranking") else {"check_exact": True}
            )
            pd.testing.assert_frame_equal(pd.read_parquet(there), pd.read_parquet(here), **close)
    assert provenance_of(own.cell("word", "census.parquet"))["device"] == CARD.type


@pytest.fixture(scope="module")
def in_bfloat16(finished, tmp_path_factory):
    """Every command that runs the model, in bfloat16."""
    own = Run(tmp_path_factory.mktemp("bfloat16"))
    own.null = finished.null
    own.on_model = ("--model", finished.results / "model", "--device", "cpu", "--dtype", "bfloat16")
    on_the_model(own)
    return own


@pytest.mark.nightly
def test_bfloat16_finds_the_planted_circuit(in_bfloat16):
    planted = planted_neurons(True, seed=0)
    circuit = pd.read_parquet(in_bfloat16.shared("circuit.parquet"))
    assert {layer: own["neuron"].tolist() for layer, own in circuit.groupby("layer")} == {
        layer: planted["word", layer] for layer in LATE
    }
    for name in TEMPLATES:
        rows = pd.read_parquet(in_bfloat16.cell(name, "interventions.parquet"))
        kept = rows.query("intervention == 'keep_only' and neurons == 'circuit' and positions == 'all'")
        assert kept["accuracy"].min() > 0.9
        assert provenance_of(in_bfloat16.cell(name, "ranking.parquet"))["dtype"] == "bfloat16"


def test_lower_precision_and_the_benchmark_on_a_card(finished, tmp_path):
    inputs = {"datasets": "dataset", "corrupt-tables": "corrupt", "attribution": "attribution"}
    files = [
        f"--{option}=code/addition={finished.cell('code', f'{table}.parquet')}" for option, table in inputs.items()
    ]
    tables = {}
    for device in ("cpu", CARD.type):
        with pretended_gpu() if device == CARD.type else nullcontext():
            model = ("--model", finished.results / "model", "--device", device)
            run("precision", *model, "--dtype=bfloat16", *files, "--output", tmp_path / f"{device}.parquet")
            few = ("--prompts", 2, "--candidates", 4, "--repeats", 1)
            run("bench", "stages", *model, *few, "--output", tmp_path / device)
        tables[device] = pd.read_parquet(tmp_path / f"{device}.parquet")
        assert pd.read_parquet(tmp_path / device / "bench.parquet")["stage"].nunique() == 11
    pd.testing.assert_frame_equal(*tables.values(), check_exact=True)


def refused(capsys, *words):
    """What a command says that refuses, in one line and without a traceback."""
    assert main(complete(words)) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("error: ")
    return said


@pytest.fixture
def broken(finished, tmp_path):
    """Copies of finished files in which something was changed, written as whole files are."""

    def table(path, schema, change):
        to = tmp_path / path.name
        write_table(change(read_table(path, schema)), to, schema, provenance_of(path))
        return to

    def tensors(path, kind, change=lambda tensors: tensors, **changes):
        to = tmp_path / path.name
        found, provenance = read_tensors(path, kind)
        write_tensors(change(found), to, kind, {**provenance, **changes})
        return to

    return SimpleNamespace(table=table, tensors=tensors, output=tmp_path / "out")


def test_prompts_and_partners_of_two_cells(finished, broken, capsys):
    dataset, corrupt = (finished.cell("word", f"{name}.parquet") for name in ("dataset", "corrupt"))
    words = ("attribution", *finished.on_model, "--dataset", dataset, "--output", broken.output)
    fewer = broken.table(corrupt, CORRUPT, lambda table: table.iloc[1:])
    said = refused(capsys, *words, "--corrupt-table", fewer)
    assert said.endswith(f"{fewer} does not have one partner for each train prompt of {dataset}")
    train = read_table(dataset, DATASET).query("split == 'train'").sort_values("index")
    equal = broken.table(
        corrupt, CORRUPT, lambda table: table.assign(answer_token=train["answer_token"].to_numpy())
    )
    assert f"{equal}: a corrupt partner has the same answer" in refused(capsys, *words, "--corrupt-table", equal)
    assert not broken.output.exists()


def test_files_of_two_models_or_formats(finished, broken, capsys):
    effects = finished.cell("word", "indirect_effects.safetensors")
    foreign = broken.tensors(effects, "indirect_effects", model="another")
    both = (f"code={finished.cell('code', 'indirect_effects.safetensors')}", f"word={foreign}")
    said = refused(capsys, "circuit", "--effects", *both, *SIZE, "--output", broken.output)
    assert "--effects: the files are of different models" in said
    effects = ("--effects", *finished.each("indirect_effects.safetensors"), *SIZE, "--output", broken.output)
    variants = broken.tensors(
        finished.cell("code", "paraphrase_effects.safetensors"), "paraphrase_effects", prompts=7
    )
    for name in ("code", "spoken"):
        said = refused(capsys, "paraphrases", *effects, "--paraphrase-effects", f"{name}={variants}")
        assert said.endswith(f"{variants} does not belong to the effects of format {name}")
    assert not broken.output.exists()


def test_a_mean_cache_of_another_model(finished, broken, capsys):
    dataset = ("--dataset", finished.cell("word", "dataset.parquet"))
    circuit = ("--circuit", finished.shared("circuit.parquet"), *SIZE, "--output", broken.output)
    ranking = ("--ranking", finished.cell("word", "ranking.parquet"), "--prompts-output", broken.output)
    words = ("interventions", *finished.on_model, *dataset, *ranking, *circuit, "--mean-cache")
    narrow = broken.tensors(
        finished.folder / "symbolic/mean_cache.safetensors",
        "mean_cache",
        lambda tensors: {name: array for name, array in tensors.items() if name != "neurons.3"},
    )
    assert "the mean cache was made with a model of another shape" in refused(capsys, *words, narrow)
    assert not broken.output.exists()


def test_the_templates_own_means_are_tried_besides_the_formats(finished, tmp_path):
    """Two templates of unequal length make the format's means; either's own means give what they give alone."""
    together, own, other = (tmp_path / f"{name}.safetensors" for name in ("together", "addition", "other"))
    of_format = {"addition": "word", "x": "code"}
    censuses = [f"{name}={finished.cell(of, 'census.parquet')}" for name, of in of_format.items()]
    sample = ("--census", *censuses, "--exclude", finished.cell("word", "dataset.parquet"), "--prompts", 200)
    outputs = ("--output", together, "--template-outputs", f"addition={own}", f"x={other}")
    run("mean-cache", *finished.on_model, *sample, *outputs)
    tensors = {path: read_tensors(path, "mean_cache") for path in (together, own, other)}
    counts = [arrays["count"] for arrays, _ in tensors.values()]
    assert counts[0].max() == counts[1].max() + counts[2].max()
    assert [provenance["prompts"] for _, provenance in tensors.values()][1:] == [{"addition": 100}, {"x": 100}]

    inputs = [f"--{name}={finished.cell('word', f'{name}.parquet')}" for name in ("dataset", "ranking")]
    inputs += ["--circuit", finished.shared("circuit.parquet"), *SIZE, "--bootstrap", 20]
    tables = {}
    for name, *means in (("both", together, "--template-mean-cache", own), ("own", own)):
        files = [tmp_path / f"{name}{of}.parquet" for of in ("", "_prompts")]
        outputs = ("--output", files[0], "--prompts-output", files[1])
        run("interventions", *finished.on_model, *inputs, "--mean-cache", *means, *outputs)
        tables[name] = [pd.read_parquet(path) for path in files]
    for both, alone in zip(*tables.values(), strict=True):
        kept = alone[(alone["seed"] <= 0) & alone["neurons"].isin(["none", "circuit", "random"])]
        found = both[both["means"] == "template"]
        pd.testing.assert_frame_equal(
            found.drop(columns="means").reset_index(drop=True), kept.drop(columns="means").reset_index(drop=True)
        )
        ablated = both.query("means == 'format' and intervention == 'knockout' and neurons == 'circuit'")
        same = found.query("intervention == 'knockout' and neurons == 'circuit'")
        assert not np.allclose(ablated["normalized_logit"], same["normalized_logit"], atol=1e-4)


def test_answers_that_are_marked_as_right_are_a_census_still(finished, tmp_path):
    """tests/bench/llama_shaped.py does that to random weights."""
    path = tmp_path / "results/m/word/addition/census.parquet"
    source = finished.cell("word", "census.parquet")
    write_table(read_table(source, CENSUS).assign(correct=False), path, CENSUS, provenance_of(source))
    mark_as_right(tmp_path)
    assert read_table(path, CENSUS)["correct"].all()
    assert provenance_of(path) == provenance_of(source)


def test_a_template_of_no_census(finished, broken, capsys):
    census = ("--census", f"addition={finished.cell('word', 'census.parquet')}")
    outputs = ("--output", broken.output, "--template-outputs", f"division={broken.output}")
    said = refused(capsys, "mean-cache", *finished.on_model, *census, *outputs)
    assert said.endswith("--template-outputs: division is not one of the operators of --census")


def test_too_few_prompts_to_probe(finished, broken, capsys):
    census = ("--census", f"word/{OPERATOR}={finished.cell('word', 'census.parquet')}")
    said = refused(capsys, "probe", *finished.on_model, *census, "--prompts", 1, "--output", broken.output)
    assert re.search(r"probe: no prompt of .* is left to (train on|test); raise probe_prompts", said)


def test_tables_of_a_model_whose_source_is_not_given(finished, broken, capsys):
    words = paper_tables(finished, broken.output)
    said = refused(capsys, "paper-tables", "--source", "other=embedded:embedded-shared", *words)
    assert said == f"error: --source or --labelled lacks entries of ['{MODEL}']"
    assert not broken.output.exists()
    assert len(pd.read_csv(finished.results / "tables/census.csv")) == len(TEMPLATES)
