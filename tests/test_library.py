"""The library: its examples, its page, and each function against hooks on Hugging Face's own forward pass."""

import doctest
import io
import re
from contextlib import nullcontext
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from hugging_face import HuggingFace, set_at_the_last_token
from planted_models import TEMPLATES
from transformers import PreTrainedTokenizerFast

import form_invariance
from conftest import ROOT
from form_invariance import library
from form_invariance.errors import UserError
from form_invariance.experiment.model_options import load_model as load_for_a_command
from form_invariance.experiment.options import ModelOptions
from form_invariance.library import prompts as library_prompts
from form_invariance.model.files import PACKAGED
from form_invariance.stages.attribution.compute import attribute, corrupt_activations

SOURCE, SEPARATE = "embedded:embedded-shared", "embedded:embedded-separate"
LATE = range(3, 6)
ROWS = pd.DataFrame({"a": [12, 30, 225, 7, 611], "b": [7, 41, 68, 8, 23]})
FORMS = TEMPLATES["symbolic"], TEMPLATES["word"]


@pytest.fixture(scope="module")
def model():
    return library.load_model(SOURCE, device="cpu")


@pytest.fixture(scope="module")
def prompts(model):
    """Prompts of two lengths."""
    rows = ROWS.assign(answer=ROWS["a"] + ROWS["b"])
    parts = zip(FORMS, (rows[:3], rows[3:]), strict=True)
    return pd.concat([library.make_prompts(model, *part) for part in parts], ignore_index=True)


@pytest.fixture(scope="module")
def neurons():
    rng = np.random.default_rng(0)
    pairs = [(layer, neuron) for layer in LATE for neuron in rng.choice(1032, 40, replace=False)]
    return pd.DataFrame(pairs, columns=["layer", "neuron"])


class Theirs(HuggingFace):
    """Hugging Face's model on one prompt at a time."""

    tokenizer = PreTrainedTokenizerFast.from_pretrained(PACKAGED / "embedded-shared")

    def logits(self, prompt, *change):
        return super().logits(self.tokenizer(prompt, return_tensors="pt")["input_ids"], *change)[0]


@pytest.fixture(scope="module")
def theirs():
    return Theirs(PACKAGED / "embedded-shared")


def probability(z, token):
    return z.double().softmax(-1)[token].item()


@pytest.mark.parametrize("name", form_invariance.__all__)
def test_every_function_has_an_example_that_holds(name):
    assert getattr(form_invariance, name) is getattr(library, name)
    tests = doctest.DocTestFinder().find(getattr(library, name), name, globs={**vars(library), "pd": pd})
    assert tests[0].examples, "no example"
    assert doctest.DocTestRunner().run(tests[0]).failed == 0


def test_every_function_is_on_the_page_and_the_page_runs(capsys):
    page = (ROOT / "docs/library.md").read_text().split("## Score")[0]
    assert sorted(re.findall(r"^- `(\w+)\(", page, re.MULTILINE)) == form_invariance.__all__
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    space = {}
    for block in blocks:
        exec(block, space)
    found = [float(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    for value, low, high in zip(found, (0.5, 0.5, 1, 0, 0), (1, 1, 150, 1, 1), strict=True):
        assert low <= value <= high


def test_answers_are_hugging_faces(model, prompts, theirs):
    found = library.answer(model, prompts)
    for row in found.itertuples():
        z = theirs.logits(row.prompt)
        assert row.probability == pytest.approx(probability(z, row.answer_token), rel=1e-5)
        assert row.predicted == theirs.tokenizer.decode([int(z.argmax())])
        assert row.correct == (row.predicted == str(row.answer))


def indirect_effect(before, after, right, wrong):
    p, q = ([probability(z, token) for token in (right, wrong)] for z in (before, after))
    return 0.5 * ((q[1] - p[1]) / p[1] + (p[0] - q[0]) / q[0])


def logit_difference(before, after, right, wrong):
    return ((before[right] - before[wrong]) - (after[right] - after[wrong])).item()


def kl(before, after, right, wrong):
    p, q = before.double().log_softmax(-1), after.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum().item()


def fall(before, after, right, wrong):
    return probability(before, right) - probability(after, right)


METRICS = {"indirect_effect": indirect_effect, "probability": fall, "logit_difference": logit_difference, "kl": kl}


@pytest.mark.parametrize(("name", "metric"), METRICS.items())
def test_exact_effects_are_those_of_hooked_passes(model, prompts, neurons, theirs, name, metric):
    corrupt, some = prompts.iloc[[1, 2, 0, 4, 3]], neurons.iloc[::20]
    found = library.exact_effects(model, prompts, corrupt, some, name)
    assert (found["effect"].diff().dropna() <= 0).all()
    assert found["effect"].max() > 1e-5
    found, limit = found.set_index(["layer", "neuron"]), 1e-6 if metric is kl else 1e-5
    other = [theirs.neurons(prompt) for prompt in corrupt["prompt"]]
    for layer, neuron in some.itertuples(index=False):
        effects = []
        for clean, wrong, given in zip(prompts.itertuples(), corrupt["answer_token"], other, strict=True):
            patch = set_at_the_last_token(layer, neuron, given[layer, :, -1, neuron])
            both = theirs.logits(clean.prompt), theirs.logits(clean.prompt, patch)
            effects.append(metric(*both, clean.answer_token, wrong))
        effect, deviation = found.loc[(layer, neuron), ["effect", "deviation"]]
        assert effect == pytest.approx(np.mean(effects), rel=1e-3, abs=limit)
        assert deviation == pytest.approx(np.std(effects, ddof=1), rel=1e-3, abs=limit)


def test_a_single_prompt_has_no_deviation(model, prompts, neurons):
    found = library.exact_effects(model, prompts[:1], prompts[1:2], neurons[:2])
    assert found["deviation"].tolist() == [0, 0]


def test_a_model_is_shown_in_a_line(model):
    line = f"<model {SOURCE}: layers 0..5, late layers 3..5, 1032 neurons a layer, float32 on cpu>"
    assert repr(model) == line


def test_prompts_and_means_are_of_a_tokenizer_and_of_weights(model, prompts, neurons):
    """The other model has the same tokenizer."""
    other, tf32 = (library.load_model(one, dtype="tf32", device="cpu") for one in (SEPARATE, SOURCE))
    assert not library.answer(other, prompts)["probability"].equals(library.answer(model, prompts)["probability"])
    means = library.mean_activations(model, prompts)
    kept = [library.keep_only(one, prompts, neurons, means) for one in (model, tf32)]
    assert kept[0].equals(kept[1])
    with pytest.raises(UserError, match=r"^means: they were made with another model"):
        library.keep_only(other, prompts, neurons, means)


def test_several_accepted_answers(model, theirs):
    rows = ROWS.assign(answer=[[19, 7], "71", (8, 293), [3, 5, 15], [9]], other=[7, 71, 8, 3, 9])
    prompts = library.make_prompts(model, FORMS[0], rows)
    tokens = {n: theirs.tokenizer.convert_tokens_to_ids(str(n)) for n in (19, 7, 71, 8, 293, 3, 5, 15, 9)}
    accepted = [[19, 7], [71], [8, 293], [3, 5, 15], [9]]
    assert prompts["accepted_tokens"].tolist() == [[tokens[n] for n in some] for some in accepted]
    assert prompts["answer_token"].tolist() == [tokens[some[0]] for some in accepted]

    found = library.answer(model, prompts)
    assert found["correct"].tolist() == [True, True, True, True, False]
    given = [19, 71, 293, 15, 9]
    assert found["answer_token"].tolist() == [tokens[n] for n in given]
    for row in found.itertuples():
        expected = probability(theirs.logits(row.prompt), row.answer_token)
        assert row.probability == pytest.approx(expected, rel=1e-5)
    single = library.make_prompts(model, FORMS[0], rows, "other")
    joined = library.answer(model, pd.concat([single, prompts]))
    assert joined["correct"].tolist() == [False, True, False, False, False, *found["correct"]]
    none = pd.DataFrame({"layer": [], "neuron": []}, dtype=int)
    kept = library.knock_out(model, prompts, none, library.mean_activations(model, prompts))
    assert kept["correct"].tolist() == found["correct"].tolist()

    corrupt = library.make_prompts(model, FORMS[0], ROWS.assign(answer=[71, 19, 7, 293, 15]))
    with pytest.raises(UserError, match=r"^corrupt: row 2 has the answer of its clean prompt"):
        library.attribution(model, prompts, corrupt.assign(answer_token=tokens[293]))
    for numbers in (list, np.array):  # Parquet makes arrays of lists
        text = prompts.assign(accepted_tokens=prompts["accepted_tokens"].map(numbers)).to_csv(index=False)
        back = library.answer(model, pd.read_csv(io.StringIO(text)))
        assert back[["correct", "answer_token"]].equals(found[["correct", "answer_token"]])
    answered = library.make_prompts(model, FORMS[0], found, "other")
    made = ["prompt", "answer_token", "template", "tokenizer"]
    assert answered.drop(columns=made).equals(rows), "answers were given before"


def test_attribution_is_that_of_the_stage(model, prompts):
    clean, corrupt = prompts.iloc[[0, 1]], prompts.iloc[[3, 2]]
    found = library.attribution(model, clean, corrupt)
    assert (found["attribution"].diff().dropna() <= 0).all()
    answers = torch.tensor(np.stack([clean["answer_token"], corrupt["answer_token"]], axis=1))
    given = corrupt_activations(model, corrupt["prompt"].tolist())
    expected = attribute(model.model, model.tokens(clean["prompt"].tolist()), given, answers, model.first).mean(1)
    own = found.set_index(["layer", "neuron"]).sort_index()["attribution"]
    np.testing.assert_allclose(own, expected.flatten(), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("function", "positions"),
    [("keep_only", "all"), ("knock_out", "all"), ("knock_out", "last"), ("transfer", "")],
)
def test_interventions_set_neurons_to_means_of_their_positions_or_to_a_donors_last_token(
    model, prompts, neurons, theirs, function, positions
):
    means, donors = library.mean_activations(model, prompts), prompts.iloc[[3, 4, 0, 1, 2]]
    given = (donors, neurons) if function == "transfer" else (neurons, means, positions)
    found = getattr(library, function)(model, prompts, *given)
    chosen = torch.zeros(6, 1032, dtype=torch.bool)
    chosen[neurons["layer"], neurons["neuron"]] = True
    for row, donor in zip(found.itertuples(), donors["prompt"], strict=True):
        others = theirs.neurons(donor)

        def change(layer, post, others=others):
            if layer not in LATE:
                return post
            post, places = post.clone(), post.shape[1] - 1
            if function == "transfer":
                post[0, -1] = torch.where(chosen[layer], others[layer, 0, -1], post[0, -1])
            else:
                begin = places if positions == "last" else 1
                laid = means.neurons[layer][:places].flip(0)[begin - 1 :]
                post[0, begin:] = torch.where(chosen[layer] ^ (function == "keep_only"), laid, post[0, begin:])
            return post

        z = theirs.logits(row.prompt, change)
        assert row.probability == pytest.approx(probability(z, row.answer_token), rel=1e-4, abs=1e-7)


def switches():
    """The precision of float32 products on a GPU and on a CPU."""
    return torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision


@pytest.fixture
def put_back():
    default, before = torch.get_default_dtype(), switches()
    yield
    torch.set_default_dtype(default)
    torch.set_float32_matmul_precision("highest")
    for one, was in zip((torch.backends.cuda, torch.backends.mkldnn), before, strict=True):
        one.matmul.fp32_precision = was


def test_tf32_is_on_for_a_model_in_tf32_alone(prompts, monkeypatch, put_back):
    seen, real = [], library_prompts.answer_prompts
    monkeypatch.setattr(library_prompts, "answer_prompts", lambda *own: seen.append(switches()) or real(*own))
    torch.set_float32_matmul_precision("high")
    before = switches()
    for dtype in ("tf32", "float32", torch.bfloat16, "tf32"):
        library.answer(library.load_model(SOURCE, dtype=dtype, device="cpu"), prompts)
        assert switches() == before
    with pytest.raises(UserError):
        library.answer(library.load_model(SOURCE, dtype="tf32", device="cpu"), prompts[:0])
    assert switches() == before
    assert torch.get_float32_matmul_precision() == "high"
    off, on = ("ieee", "ieee"), ("tf32", "ieee")
    assert seen == [on, off, off, on]


def test_the_commands_switch_tf32_for_their_own_model(put_back):
    for dtype, on in (("tf32", True), ("float32", False), ("tf32", True), ("bfloat16", False)):
        found, _ = load_for_a_command(ModelOptions(model=SOURCE, dtype=dtype, device="cpu"))
        assert torch.backends.cuda.matmul.allow_tf32 == found.tf32 == on


SWITCHES = [nullcontext, torch.no_grad, torch.inference_mode, partial(torch.autocast, "cpu")]
SWITCHES += [lambda: nullcontext(torch.set_default_dtype(torch.bfloat16))]


@pytest.mark.parametrize("within", SWITCHES)
def test_a_notebooks_switches_change_nothing(model, prompts, neurons, within, put_back):
    corrupt, some = prompts.iloc[[1, 2, 0, 4, 3]], neurons[:3]

    def results(model):
        means = library.mean_activations(model, prompts)
        return [
            library.answer(model, prompts),
            library.attribution(model, prompts, corrupt),
            library.exact_effects(model, prompts, corrupt, some),
            library.keep_only(model, prompts, neurons, means),
            library.transfer(model, prompts, corrupt, neurons),
        ]

    expected = results(model)
    with within():
        found = [*results(model), *results(library.load_model(SOURCE, device="cpu"))]
    for one, other in zip(found, expected * 2, strict=True):
        pd.testing.assert_frame_equal(one, other, rtol=0, atol=0)
