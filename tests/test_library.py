"""The library: its examples, its page, and each function against hooks on Hugging Face's own forward pass."""

import doctest
import re

import numpy as np
import pandas as pd
import pytest
import torch

import form_invariance
from conftest import ROOT
from form_invariance import library
from form_invariance.errors import UserError
from form_invariance.model.files import PACKAGED

SOURCE = "embedded:embedded-shared"
LATE = range(3, 6)
ROWS = pd.DataFrame({"a": [12, 30, 225, 7, 611], "b": [7, 41, 68, 8, 23]})
FORMS = (
    "{a}+{b}=",
    "Jack has {a} apples. His friend gives him {b} more apples. How many does he have now? Answer:",
)


@pytest.fixture(scope="module")
def model():
    return library.load_model(SOURCE, device="cpu")


@pytest.fixture(scope="module")
def prompts(model):
    """Prompts of two lengths."""
    rows = ROWS.assign(answer=ROWS["a"] + ROWS["b"])
    parts = zip(FORMS, ([0, 1, 2], [3, 4]), strict=True)
    return pd.concat(
        [library.make_prompts(model, form, rows.iloc[part]) for form, part in parts], ignore_index=True
    )


@pytest.fixture(scope="module")
def neurons():
    rng = np.random.default_rng(0)
    pairs = [(layer, neuron) for layer in LATE for neuron in rng.choice(1032, 40, replace=False)]
    return pd.DataFrame(pairs, columns=["layer", "neuron"])


class Theirs:
    """Hugging Face's model with functions of the neurons at chosen layers."""

    def __init__(self):
        from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

        folder = PACKAGED / "embedded-shared"
        self.model = AutoModelForCausalLM.from_pretrained(folder)
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)

    def logits(self, prompt, change=None):
        """Logits at the last token; `change(layer, neurons (T, m))` gives the neurons of each late layer."""
        ids = self.tokenizer(prompt, return_tensors="pt")["input_ids"]
        handles = [
            self.model.model.layers[layer].mlp.down_proj.register_forward_pre_hook(
                lambda _, given, layer=layer: (change(layer, given[0][0])[None],)
            )
            for layer in (LATE if change else ())
        ]
        found = self.model(ids).logits[0, -1]
        for handle in handles:
            handle.remove()
        return found

    @torch.no_grad()
    def neurons(self, prompt):
        """Activations (T, m) by late layer."""
        seen = {}

        def keep(layer, post):
            seen[layer] = post
            return post

        self.logits(prompt, keep)
        return seen


@pytest.fixture(scope="module")
def theirs():
    return Theirs()


def probability(z, token):
    return z.double().softmax(-1)[token].item()


def chosen_of(neurons):
    """Which neurons of each late layer are chosen, bool (m,)."""
    found = {layer: torch.zeros(1032, dtype=torch.bool) for layer in LATE}
    for layer, neuron in neurons.itertuples(index=False):
        found[layer][neuron] = True
    return found


@pytest.mark.parametrize("name", form_invariance.__all__)
def test_examples(name):
    assert getattr(form_invariance, name) is getattr(library, name)
    tests = doctest.DocTestFinder().find(getattr(library, name), name, globs={**vars(library), "pd": pd})
    assert tests[0].examples, "no example"
    assert doctest.DocTestRunner().run(tests[0]).failed == 0


def test_every_function_is_on_the_page_and_the_page_runs(capsys):
    page = (ROOT / "docs/library.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)\(", page, re.MULTILINE)) == form_invariance.__all__
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks[0].splitlines()) <= 15
    space = {}
    for block in blocks:
        exec(block, space)
    shared, kept, without = (float(line.split()[0]) for line in capsys.readouterr().out.splitlines())
    assert 0 < shared < 150
    assert 0 <= without <= 1
    assert 0 <= kept <= 1


def test_answers_are_hugging_faces(model, prompts, theirs):
    found = library.answer(model, prompts)
    for row in found.itertuples():
        z = theirs.logits(row.prompt)
        assert row.probability == pytest.approx(probability(z, row.answer_token), rel=1e-5)
        assert row.predicted == theirs.tokenizer.decode([int(z.argmax())])
        assert row.correct == (row.predicted == str(row.answer))


def test_exact_effects_are_those_of_hooked_passes(model, prompts, neurons, theirs):
    corrupt = prompts.iloc[[1, 2, 0, 4, 3]]
    some = neurons.iloc[::15]
    found = library.exact_effects(model, prompts, corrupt, some)
    assert (found["effect"].diff().dropna() <= 0).all()
    other = [theirs.neurons(prompt) for prompt in corrupt["prompt"]]
    for layer, neuron in some.itertuples(index=False):
        effects = []
        for row, (clean, given) in enumerate(zip(prompts.itertuples(), other, strict=True)):

            def patch(at, post, given=given):
                if at == layer:
                    post = post.clone()
                    post[-1, neuron] = given[layer][-1, neuron]
                return post

            wrong = corrupt["answer_token"].iloc[row]
            with torch.no_grad():
                before, after = theirs.logits(clean.prompt), theirs.logits(clean.prompt, patch)
            p, q = ([probability(z, token) for token in (clean.answer_token, wrong)] for z in (before, after))
            effects.append(0.5 * ((q[1] - p[1]) / p[1] + (p[0] - q[0]) / q[0]))
        row = found[(found["layer"] == layer) & (found["neuron"] == neuron)].iloc[0]
        assert row["effect"] == pytest.approx(np.mean(effects), rel=1e-3, abs=1e-5)
        assert row["deviation"] == pytest.approx(np.std(effects), rel=1e-3, abs=1e-5)


def test_attribution_is_the_gradient_times_the_change(model, prompts, theirs):
    one, other = prompts.iloc[[0]], prompts.iloc[[3]]
    found = library.attribution(model, one, other).set_index(["layer", "neuron"])["attribution"]
    given = theirs.neurons(other["prompt"].item())
    inputs = {}
    for layer in LATE:

        def watch(at, post, layer=layer):
            if at == layer:
                inputs[layer] = post.detach().requires_grad_()
                return inputs[layer]
            return post

        z = theirs.logits(one["prompt"].item(), watch)
        right, wrong = (int(table["answer_token"].item()) for table in (one, other))
        (0.5 * (z[wrong] - z[right])).backward()
        change = given[layer][-1] - inputs[layer][-1].detach()
        expected = (change * inputs[layer].grad[-1]).numpy()
        np.testing.assert_allclose(found[layer].sort_index(), expected, atol=1e-5)


@pytest.mark.parametrize("keep", [True, False])
def test_ablation_sets_neurons_to_the_means_of_their_positions(model, prompts, neurons, theirs, keep):
    means = library.mean_activations(model, prompts)
    found = (library.keep_only if keep else library.knock_out)(model, prompts, neurons, means)
    chosen = chosen_of(neurons)
    for row in found.itertuples():

        def ablate(layer, post):
            post, places = post.clone(), len(post) - 1
            laid = torch.stack([means.neurons[layer][place] for place in reversed(range(places))])
            post[1:] = torch.where(chosen[layer] ^ keep, laid, post[1:])
            return post

        with torch.no_grad():
            z = theirs.logits(row.prompt, ablate)
        assert row.probability == pytest.approx(probability(z, row.answer_token), rel=1e-4, abs=1e-7)


def test_transfer_gives_the_donors_last_token(model, prompts, neurons, theirs):
    donors = prompts.iloc[[3, 4, 0, 1, 2]]
    found = library.transfer(model, prompts, donors, neurons)
    chosen = chosen_of(neurons)
    for row, donor in zip(found.itertuples(), donors["prompt"], strict=True):
        given = theirs.neurons(donor)

        def give(layer, post, given=given):
            post = post.clone()
            post[-1] = torch.where(chosen[layer], given[layer][-1], post[-1])
            return post

        with torch.no_grad():
            z = theirs.logits(row.prompt, give)
        assert row.probability == pytest.approx(probability(z, row.answer_token), rel=1e-4, abs=1e-7)


def test_mistakes_are_told_in_a_sentence(model, prompts):
    one = pd.DataFrame({"layer": [2], "neuron": [5]})
    with pytest.raises(UserError, match=r"^neurons: layer 2, neuron 5 is none of the layers 3\.\.5 with 1032"):
        library.exact_effects(model, prompts.iloc[:2], prompts.iloc[1:3], one)
    with pytest.raises(UserError, match=r"^corrupt: 2 prompts for 5; give one for each"):
        library.attribution(model, prompts, prompts.iloc[:2])
    with pytest.raises(UserError, match=r"^corrupt: row 2 has the answer of its clean prompt"):
        library.attribution(model, prompts, prompts.iloc[::-1])
    with pytest.raises(UserError, match=r"^the table has no column 'answer_token'; it has prompt$"):
        library.answer(model, pd.DataFrame({"prompt": ["1+1="]}))
    with pytest.raises(UserError, match=r"^the table has no column 'sum'; it has a, b$"):
        library.make_prompts(model, FORMS[0], ROWS, "sum")
    with pytest.raises(UserError, match=r"^first_layer: 9 must be a layer of 0\.\.5"):
        library.load_model(SOURCE, first_layer=9)
    with pytest.raises(UserError, match=r"^neurons: there is none"):
        library.exact_effects(model, prompts.iloc[:2], prompts.iloc[1:3], one.iloc[:0])
    assert library.load_model(SOURCE, first_layer=0).late == range(6)
