"""Every command that Snakemake runs, on a model whose circuit was built by hand, from the census to the report."""

import numpy as np
import pandas as pd
import planted_run
import pytest
import torch
from planted_models import LATE, PLANTED, TEMPLATES, planted_neurons
from planted_run import OPERATOR, SIZE, separate
from pretended_gpu import CARD, pretended_gpu
from replayed_run import run, written
from safetensors.torch import load_file

from form_invariance.beyond.engine_check.table import ENGINE_CHECK
from form_invariance.cli import main
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.neuron_sets import MEANS_HALVES
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.dataset.compute import Choice, make_dataset
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.tables.files import provenance_of, read_table, read_tensors, write_table, write_tensors

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[True, False], ids=["planted", "separate"])
def both(request, planted, tmp_path_factory):
    """Whether the formats share their neurons, and the run of this model."""
    return request.param, planted if request.param else separate(tmp_path_factory)


def test_the_model_adds_but_for_what_it_was_made_to_misread(both):
    for name in TEMPLATES:
        census = pd.read_parquet(both[1].cell(name, "census.parquet"))
        wrong = (census["answer"] > 90) & (name == "word")
        assert (census["predicted"].astype(int) == census["answer"] + 7 * wrong).all()
        assert census["correct"].mean() > 0.8


def test_both_stages_find_the_planted_neurons_and_the_circuit_those_that_are_shared(both):
    shared, run = both
    neurons = planted_neurons(shared, seed=0)
    for name in TEMPLATES:
        ranking = pd.read_parquet(run.cell(name, "ranking.parquet"))
        for column in ("attribution_rank", "rank"):
            first = ranking[ranking[column] <= PLANTED].groupby("layer")["neuron"].agg(sorted)
            assert first.to_dict() == {layer: neurons[name, layer] for layer in LATE}
    circuit = pd.read_parquet(run.shared("circuit.parquet")).groupby("layer")["neuron"].agg(sorted).to_dict()
    assert circuit == ({layer: neurons["code", layer] for layer in LATE} if shared else {})
    overlap = pd.read_parquet(run.shared("overlap.parquet")).query("used")
    assert (overlap.loc[overlap["formats"] == "+".join(TEMPLATES), "jaccard"] == shared).all()


def test_the_verdict_is_yes_where_a_circuit_is_shared_and_undefined_where_none_is(both):
    shared, run = both
    table = pd.read_parquet(run.folder / "shared/contrasts.parquet")
    table = table[table["contrast"] == "circuit_minus_control_everywhere"]
    assert set(overall(table)["verdict"]) == ({"yes"} if shared else {"undefined"})
    numbers = table[["first", "second", "difference", "low", "high"]]
    assert (numbers.notna() if shared else numbers.isna()).all(axis=None)
    said = pd.read_parquet(run.folder / "shared/verdicts.parquet").groupby("question")["verdict"].agg(set)
    nothing = {name: {"undefined"} for name in said.index} | {"same": {"undecided"}}
    nothing |= {"exchange": {"no", "undecided"}}  # one operator says little of the noise
    nothing |= {"meet": {"yes"}, "served": {"yes"}}
    # At the largest size of the dose the formats share some neurons by chance; these do nothing.
    nothing |= {"necessary": {"undefined", "no"}, "shared": {"no"}}
    assert said["same"] == {"yes"} if shared else said.to_dict() == nothing


def test_the_circuit_is_sufficient_and_necessary_and_random_neurons_are_not(both):
    shared, run = both
    for name in TEMPLATES:
        table = pd.read_parquet(run.cell(name, "interventions.parquet")).query("means == 'format'")
        if not shared:
            # An empty circuit has no values and no controls.
            assert table["neurons"].str.endswith("circuit").all()
            assert table[["faithfulness_mean", "accuracy", "probability"]].isna().all(axis=None)
            continue
        means = table.groupby(["neurons", "intervention", "positions"])["faithfulness_mean"].mean()
        for neurons, how, expected in (("circuit", "keep_only", 1), ("random", "knockout", 1)):
            assert means[neurons, how].tolist() == pytest.approx([expected] * 2, abs=0.02)
        for neurons, how in (("circuit", "knockout"), ("random", "keep_only")):
            assert means[neurons, how].abs().max() <= 0.05


def test_a_donor_repairs_all_that_the_model_misreads(both):
    shared, run = both
    paths = sorted((run.folder / "transfer" / OPERATOR).iterdir())
    assert len(paths) == len(TEMPLATES) * (len(TEMPLATES) - 1)
    rates = pd.concat(map(pd.read_parquet, paths)).query("pairs > 0").set_index("condition")["recovered"]
    assert rates["matched"].to_numpy() == pytest.approx([1 if shared else np.nan] * 2, nan_ok=True)
    assert not shared or (rates["random"] < 0.2).all()


def test_a_variant_that_is_the_template_has_its_neurons(planted):
    table = pd.read_parquet(planted.folder / "shared/differing.parquet")
    overlap = table[table["operators"] == "all"].set_index("differs")
    assert overlap.loc["wording", ["value", "pairs"]].tolist() == [1, 2 * len(TEMPLATES)]
    for name in TEMPLATES:
        own, variant = (read_table(planted.cell(form, "dataset.parquet"), DATASET) for form in (name, f"{name}~1"))
        pd.testing.assert_frame_equal(own, variant)


def test_correlations_are_those_of_the_sampled_maps(planted):
    table = pd.read_parquet(planted.shared("activation_correlation.parquet"))
    maps = {name: load_file(planted.cell(name, "activation_maps.safetensors"))["sampled"] for name in TEMPLATES}
    for formats, rows in table.groupby("formats"):
        one, other = (maps[name].double().numpy() for name in formats.split("+"))
        expected = [np.corrcoef(*both)[0, 1] for both in zip(one, other, strict=True)]
        np.testing.assert_allclose(rows["correlation"], expected, atol=1e-9)


def test_a_card_gives_the_same_files(planted, tmp_path):
    """Every command that runs the model runs once on a pretended card, which TransformerLens does not know."""
    calls = {words[0]: words for words in planted.calls if "--device=cpu" in words and words[0] != "engine-check"}
    assert len(calls) > 10
    with pretended_gpu() as card:
        own = planted_run.run(tmp_path / "run", [*calls.values()], planted, device=CARD.type)
    assert card.operations > 10_000
    for name, words in calls.items():
        for here, there in zip(*(written(words, one.place) for one in (planted, own)), strict=True):
            if here.suffix == ".safetensors":
                for key, values in load_file(here).items():
                    torch.testing.assert_close(load_file(there)[key], values, rtol=0, atol=0, equal_nan=True)
                continue
            # With gradients the pretended card's attention differs from the CPU's.
            close = {"rtol": 1e-4, "atol": 1e-5} if name == "attribution" else {"check_exact": True}
            pd.testing.assert_frame_equal(pd.read_parquet(there), pd.read_parquet(here), **close)
            assert provenance_of(there)["device"].startswith(CARD.type)


def test_on_a_card_bfloat16_changes_the_ranks_and_float32_does_not(planted, tmp_path):
    inputs = {"dataset": "dataset", "corrupt-table": "corrupt", "attribution": "attribution"}
    files = [f"--{option}={planted.cell('code', f'{table}.parquet')}" for option, table in inputs.items()]
    files += ["--late-from=half_depth", "--prompts=10", "--ranking=effect"]
    model, tables = ("--model", planted.on_model[1], "--device", CARD.type), {}
    for dtype in ("bfloat16", "float32"):
        with pretended_gpu():
            run("precision", *model, "--dtype", dtype, *files, "--output", tmp_path / f"{dtype}.parquet")
        table = pd.read_parquet(tmp_path / f"{dtype}.parquet").set_index("dtype")
        tables[dtype] = table.loc[dtype, ["rank_correlation", "overlap"]]
    assert tables["bfloat16"]["rank_correlation"].min() < 1 - 1e-6, "bfloat16 did not run"
    np.testing.assert_allclose(tables["float32"], 1, rtol=1e-12)


def test_both_stages_rank_by_the_fall_of_the_probability(planted, tmp_path):
    calls = [words for name in ("attribution", "patching") for words in planted.commands(name)]
    calls = [[*words, "--ranking", "probability"] for words in calls if "/code/" in words[-1]]
    own, neurons = planted_run.run(tmp_path / "run", calls, planted), planted_neurons(True, seed=0)
    table = pd.read_parquet(own.cell("code", "ranking.parquet"))
    np.testing.assert_allclose(table["ie_mean"], -table["probability_change"], rtol=1e-5, atol=1e-9)
    for column, value in (("attribution_rank", "attribution_score"), ("rank", "ie_mean")):
        first = table[table[column] <= PLANTED]
        assert first.groupby("layer")["neuron"].agg(sorted).to_dict() == {at: neurons["code", at] for at in LATE}
        # The indirect effect of these neurons is a thousand times the fall.
        assert first[value].between(1e-5, 1e-2).all()
    assert provenance_of(own.cell("code", "ranking.parquet"))["ranking"] == "probability"


def test_a_model_that_transformer_lens_cannot_run_is_not_checked(planted, tmp_path, monkeypatch, capsys):
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES

    assert read_table(planted.folder / "engine_check.parquet", ENGINE_CHECK)["within"].all()
    (words,) = planted.commands("engine-check")
    monkeypatch.chdir(planted.place)
    monkeypatch.delitem(SUPPORTED_ARCHITECTURES, "LlamaForCausalLM")
    assert main([*words[:-1], str(tmp_path / "x.parquet")]) == 0
    reason = "TransformerLens does not know the architecture that"
    assert capsys.readouterr().err.startswith(f"the engine is not checked: {reason}")
    table = read_table(tmp_path / "x.parquet", ENGINE_CHECK)
    assert table["status"].str.startswith(reason).all()
    assert not table["within"].any()


def test_weights_that_transformer_lens_cannot_load_end_the_check(planted, monkeypatch):
    from transformer_lens.model_bridge import TransformerBridge

    def boot(*_, **__):
        raise ValueError("no such device")

    (words,) = planted.commands("engine-check")
    monkeypatch.chdir(planted.place)
    monkeypatch.setattr(TransformerBridge, "boot_transformers", boot)
    with pytest.raises(ValueError, match="no such device"):
        main(words)


def test_the_templates_own_means_are_tried_too(planted, tmp_path):
    """Two templates, in any order, make the format's means; a template's own means act as they do alone."""
    together, own, other = (tmp_path / f"{name}.safetensors" for name in ("together", "addition", "other"))
    path = planted.cell("code", "census.parquet")
    keys = {**provenance_of(path)["keys"], "format": "word", "operator": "x"}
    write_table(read_table(path, CENSUS), tmp_path / "x.parquet", CENSUS, provenance_of(path), keys)
    censuses = [tmp_path / "x.parquet", planted.cell("word", "census.parquet")]
    sample = ("--censuses", *censuses, "--exclude", planted.cell("word", "dataset.parquet"), "--prompts=200")
    outputs = ("--output", together, "--template-outputs", other, own)
    run("mean-cache", *planted.on_model, *sample, "--seed=3", *outputs)
    tensors = {path: read_tensors(path, "mean_cache") for path in (together, other, own)}
    counts = [arrays["count"] for arrays, _ in tensors.values()]
    assert counts[0].max() == counts[1].max() + counts[2].max()
    assert [provenance["prompts"] for _, provenance in tensors.values()][1:] == [{"x": 100}, {"addition": 100}]

    inputs = ["--dataset", planted.cell("word", "dataset.parquet")]
    inputs += ["--ranking-table", planted.cell("word", "ranking.parquet")]
    inputs += ["--circuit", planted.shared("circuit.parquet"), *SIZE, "--bootstrap=20", "--seed=3"]
    inputs += ["--circuit-halves", planted.shared("circuit_halves.parquet"), "--late-from=half_depth"]
    inputs += ["--random-seeds=5", "--matched-seeds=5", "--center-logits"]
    tables = {}
    for name, *means in (("both", together, "--template-mean-cache", own), ("own", own)):
        files = [tmp_path / f"{name}{of}.parquet" for of in ("", "_prompts")]
        outputs = ("--output", files[0], "--prompts-output", files[1])
        run("interventions", *planted.on_model, *inputs, "--format-mean-cache", *means, *outputs)
        tables[name] = [pd.read_parquet(path) for path in files]
    for both, alone in zip(*tables.values(), strict=True):
        by_template = ["none", "circuit", "random", *(half + "circuit" for half in MEANS_HALVES)]
        kept = alone[(alone["seed"] <= 0) & alone["neurons"].isin(by_template)]
        found = both[both["means"] == "template"]
        same = (table.drop(columns="means").reset_index(drop=True) for table in (found, kept))
        pd.testing.assert_frame_equal(*same)
        ablated = both.query("means == 'format' and intervention == 'knockout' and neurons == 'circuit'")
        same = found.query("intervention == 'knockout' and neurons == 'circuit'")
        assert not np.allclose(ablated["normalized_logit"], same["normalized_logit"], atol=1e-4)


def test_partners_of_other_operators_are_of_their_own_templates(planted, tmp_path):
    """A template names the stream of an operator's train prompts, so these are the ones that it is ranked by."""
    path, made = planted.cell("code", "census.parquet"), provenance_of(planted.cell("code", "census.parquet"))
    census, other = read_table(path, CENSUS), tmp_path / "x.parquet"
    changed = {**made, "template": "{a} and {b}"}
    write_table(census.iloc[::2], other, CENSUS, changed, {**made["keys"], "operator": "x"})
    outputs = [tmp_path / f"{name}.parquet" for name in ("dataset", "corrupt")]
    options = ["--train=40", "--eval=30", "--corrupt-seeds=2", "--seed=3"]
    options += ["--output", outputs[0], "--corrupt-output", outputs[1]]
    run("dataset", "--census", path, "--other-censuses", other, *options)
    censuses = {"x": (census.iloc[::2], changed["template"]), OPERATOR: (census, made["template"])}
    expected = make_dataset(censuses, OPERATOR, Choice(40, 30, 2, 3))
    for output, schema, table in zip(outputs, (DATASET, CORRUPT), expected, strict=True):
        pd.testing.assert_frame_equal(read_table(output, schema), table.reset_index(drop=True), check_like=True)


def test_a_family_is_knocked_out_on_pairs_that_ranked_it_in_no_format(planted, tmp_path, monkeypatch):
    from form_invariance.beyond.family_knockout import command

    real, seen = command.right_prompts, []
    monkeypatch.setattr(command, "right_prompts", lambda *given: seen.append(given) or real(*given))
    monkeypatch.chdir(planted.place)
    (words,) = planted.commands("family-knockout")
    run(*words[:-1], tmp_path / "x.parquet")
    assert [(given[1], len(given[3])) for given in seen] == [(text, 3) for text in TEMPLATES.values()]


def with_one_answer(table):
    return table.assign(answer_token=table["answer_token"].max())


def without_a_layer(tensors):
    return {name: values for name, values in tensors.items() if name != "neurons.3"}


REFUSALS = {
    "does not have one partner for each": ("attribution", "--corrupt-table", CORRUPT, lambda table: table[1:]),
    "a corrupt partner has the same answer": ("attribution", "--corrupt-table", CORRUPT, with_one_answer),
    "with a model of another shape": ("interventions", "--format-mean-cache", "mean_cache", without_a_layer),
    "but not the census of x/code/addition": ("paper-tables", "--tables", CENSUS, None),
}
"""By sentence: a command, the option whose first file is changed, its kind or schema, and what changes it.

None: only the provenance changes, which names another model.
"""


@pytest.mark.parametrize("sentence", REFUSALS)
def test_files_that_do_not_belong_together_are_refused(planted, tmp_path, capsys, monkeypatch, sentence):
    command, option, kind, change = REFUSALS[sentence]
    monkeypatch.chdir(planted.place)
    words = list(planted.commands(command)[0])
    place = words.index(option) + 1
    path = planted.place / words[place]
    changed, model = tmp_path / f"changed{path.suffix}", {} if change else {"model": "x"}
    made = provenance_of(path) | model
    names = made["keys"] | ({} if isinstance(kind, str) else model)
    if isinstance(kind, str):
        read, write = (lambda: read_tensors(path, kind)[0]), write_tensors
    else:
        read, write = (lambda: read_table(path, kind)), write_table
    write(change(read()) if change else read(), changed, kind, made, names)
    words[place], words[-1] = str(changed), str(tmp_path / "out")
    assert main(words) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("error: ")
    assert sentence in said
    assert not (tmp_path / "out").exists()
