"""Paraphrases: the same wording twice has the same circuit, and every measure equals counting sets."""

from dataclasses import replace

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from problem_frames import complete_problems
from test_overlap import cell
from test_patching import PROMPTS

from form_invariance.errors import UserError
from form_invariance.randomness import generator
from form_invariance.stages.dataset.prompts import train_prompts
from form_invariance.stages.membership import Membership, from_tensors, to_tensors
from form_invariance.stages.overlap import jaccard as sets
from form_invariance.stages.overlap.compute import overlap_table
from form_invariance.stages.paraphrases.answer import answer
from form_invariance.stages.paraphrases.compute import Wording, canonical, paraphrases_table, variants_from
from form_invariance.stages.paraphrases.effects import answered, exact_effects, reworded, variant_tensors
from form_invariance.stages.paraphrases.table import PARAPHRASES, one_ending, one_format, two_templates
from form_invariance.stages.run import Run
from form_invariance.statistics import expected_jaccard
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.files import read_table, write_table

FIRST, PAIRS = 3, 14
TOKENS = (11, 12)
TEMPLATES = {"addition": [PROMPTS["symbolic"], "{a} + {b} = "]}


@pytest.fixture(scope="module")
def pairs(packaged):
    """Train pairs of symbolic addition that are right, and partners with other answers."""
    model, tokenizer, _ = packaged["embedded-shared"]
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(6, 400, (40, 2)), columns=["a", "b"])
    table = table.assign(operator="addition", answer=table["a"] + table["b"])
    table = complete_problems(table, tokenizer)
    right = answered(model, tokenizer, reworded(tokenizer, table, TEMPLATES, 0))
    train = table[right].head(PAIRS).reset_index(drop=True)
    assert len(train) == PAIRS
    return train, train.iloc[np.roll(np.arange(PAIRS), 1)].reset_index(drop=True)


@pytest.fixture(scope="module")
def wordings(packaged, pairs):
    """The template, the template given as a variant, and a paraphrase."""
    model, tokenizer, _ = packaged["embedded-shared"]
    train, partners = pairs
    own, other = (reworded(tokenizer, table, TEMPLATES, 0) for table in pairs)
    prompts = train_prompts(own, [other], tokenizer, model.device)
    run = Run(model, tokenizer, FIRST)
    template = to_tensors(*exact_effects(run, prompts, 2000, "attribution"))
    tensors = {name: tensor.numpy() for name, tensor in template.items()}
    found = {}
    for number in (0, 1):
        variant = variant_tensors(run, train, partners, TEMPLATES, number, 2000, "attribution")
        found |= {f"{number + 1}.{name}": tensor.numpy() for name, tensor in variant.items()}
    width = model.config.d_mlp
    return {
        "canonical": canonical(from_tensors(tensors, width)),
        **variants_from(found, width, TOKENS, Membership()),
    }


def test_the_same_wording_has_the_same_circuit(wordings):
    assert list(wordings) == ["canonical", "variant_1", "variant_2"]
    table = paraphrases_table({"symbolic": wordings}, [10, 100], 20, 0)
    same = table.query("first == 'canonical' and second == 'variant_1'")
    assert same["prompts"].eq(PAIRS).all()
    assert same["partners_right"].eq(PAIRS).all()
    assert same["jaccard"].eq(1).all()
    assert same["effect_of_first"].eq(1).all()
    assert same["effect_of_second"].eq(1).all()
    pooled = same[same["layer"] == EVERY_LAYER]
    # A wording's halves agree as well with another's as with its own, where the two are one.
    assert (pooled["across_halves"] == pooled["within_halves"]).all()
    assert (pooled["within_halves"] < 1).all()
    other = table.query("second == 'variant_2' and layer == -1")
    assert ((other["jaccard"] > other["chance"]) & (other["jaccard"] < 1)).all()
    assert other["prompts"].between(10, PAIRS).all()


def test_the_right_prompts_are_those_of_a_full_forward_pass(packaged, pairs, wordings):
    _, tokenizer, folder = packaged["embedded-shared"]
    train, _ = pairs
    prompts = reworded(tokenizer, train, TEMPLATES, 1)["prompt"].tolist()
    z = oracles.last_logits(oracles.bridge(folder), torch.from_numpy(tokenizer.encode_batch(prompts)))
    right = z.argmax(-1).numpy() == train["answer_token"].to_numpy()
    assert wordings["variant_2"].right.tolist() == right.tolist()
    assert wordings["variant_2"].effects.prompts == right.sum()


def best(wording, rows, layer, k):
    """The top k by the mean effect of some prompts, of positive effect, as a set."""
    means = wording.effects.effects[layer][0][rows].astype(float).mean(0)
    order = sorted(zip(-means, wording.effects.candidates[layer], strict=True))
    return {int(neuron) for mean, neuron in order[:k] if mean < 0}


def jaccard(one, other):
    """Of sets by layer, pooled."""
    common = sum(len(a & b) for a, b in zip(one, other, strict=True))
    return common / sum(len(a | b) for a, b in zip(one, other, strict=True))


def test_measures_equal_sets(monkeypatch):
    monkeypatch.setattr(sets, "HALVES", 3)
    shared = {layer: 2 * (np.random.default_rng(9).random(40) < 0.2) for layer in (3, 4)}
    right = np.ones(16, dtype=bool)
    right[[2, 5, 11]] = False
    one = canonical(cell(0, shared, prompts=16))
    other = Wording(right, right, cell(1, shared, prompts=13, draws=1))
    table = paraphrases_table({"s": {"canonical": one, "variant_1": other}}, [3, 8], 10, seed=4)
    both, inside = np.flatnonzero(right), np.arange(13)
    weights = sets.halves(13, generator(4, "split-half", "variants"))
    halves = [[np.flatnonzero(half) for half in both] for both in weights]
    assert len(halves) == 3
    for k in (3, 8):
        tops = [[best(w, rows, layer, k) for layer in (3, 4)] for w, rows in ((one, both), (other, inside))]
        for layer, a, b in zip((3, 4), *tops, strict=True):
            row = table.query("k == @k and layer == @layer").iloc[0]
            assert (row["intersection"], row["union"]) == (len(a & b), len(a | b))
            means = other.effects.effects[layer][0].astype(float).mean(0)
            assert row["effect_of_first"] == pytest.approx(means[list(a)].sum() / means[list(b)].sum())
        row = table.query("k == @k and layer == -1").iloc[0]
        assert row["jaccard"] == pytest.approx(jaccard(*tops))
        assert row["chance"] == pytest.approx(expected_jaccard([k, k], 40))
        across, within = [], []
        for halved in halves:
            (a, b), (c, d) = (
                [[best(w, rows[half], layer, k) for layer in (3, 4)] for half in halved]
                for w, rows in ((one, both), (other, inside))
            )
            across += [jaccard(a, d), jaccard(b, c)]
            within += [jaccard(a, b), jaccard(c, d)]
        assert row["across_halves"] == pytest.approx(np.mean(across))
        assert row["within_halves"] == pytest.approx(np.mean(within))
        assert (row["asked"], row["right"], row["prompts"], row["partners_right"]) == (16, 13, 13, 13)


def test_two_formats_are_compared_as_in_the_overlap_table():
    cells = {"s": cell(0, prompts=12, draws=1), "w": cell(1, prompts=12, draws=1)}
    table = paraphrases_table({name: {"canonical": canonical(one)} for name, one in cells.items()}, [5], 10, 0)
    assert not one_format(table).any()
    wanted = overlap_table(cells, [5], 10, 0)
    for column in ("layer", "intersection", "union", "jaccard", "chance"):
        assert table[column].tolist() == wanted[column].tolist()


def wordings_ending(seed, *tokens):
    """A template and variants that end in these tokens; None: a variant that ends in 1, but is not ranked."""
    right, few = np.arange(16) % 4 > 0, np.arange(16) > 7
    made = {"canonical": canonical(cell(seed, prompts=16), tokens[0])}
    for number, token in enumerate(tokens[1:], 1):
        ranked = token is not None
        effects = cell(seed + number, prompts=12) if ranked else None
        made[f"variant_{number}"] = Wording(right if ranked else few, few, effects, token if ranked else 1)
    return made


@pytest.mark.parametrize(
    ("first", "second", "compared"),
    [
        ((1, 2, 3), (1, 4), {("canonical", "canonical"): "yes"}),
        ((1, 2, 3), (3, 2), {("canonical", "canonical"): "no", ("variant_2", "canonical"): "yes"}),
        ((1, 2, 3), (4, 3, 2), {("canonical", "canonical"): "no", ("variant_1", "variant_2"): "yes"}),
        ((1, 2), (3, None, 4), {("canonical", "canonical"): "no"}),
        ((1, 2), (None,), {("canonical", "canonical"): "unknown"}),
    ],
)
def test_formats_whose_templates_end_otherwise_are_compared_where_they_end_alike(first, second, compared):
    formats = {"s": wordings_ending(0, *first), "w": wordings_ending(5, *second)}
    table = paraphrases_table(formats, [5], 10, 0)
    found = table[~one_format(table) & (table["layer"] == EVERY_LAYER)].set_index(["first", "second"])
    assert found["same_final_token"].to_dict() == compared
    assert one_ending(table).sum() == sum(value == "yes" for value in compared.values()) * 3
    assert two_templates(table).sum() == 3
    for names, row in found.iterrows():
        chosen = {form: formats[form][name] for form, name in zip("sw", names, strict=True)}
        wanted = overlap_table({form: one.effects for form, one in chosen.items()}, [5], 10, 0)
        assert row["jaccard"] == wanted.loc[wanted["layer"] == EVERY_LAYER, "jaccard"].item()
        variant = any(name != "canonical" for name in names)
        counts = (12, 12, 6) if variant else (16, 16, 16)
        assert tuple(row[["right", "prompts", "partners_right"]]) == counts
        assert row["asked"] == 16


def sentence_of(table, k):
    (found,) = answer({"paraphrases": table.assign(operator="+")}, k)
    return found.sentence


def test_too_few_right_prompts_say_so(tmp_path):
    right = np.zeros(16, dtype=bool)
    right[:9] = True
    formats = {"s": {"canonical": canonical(cell(0, prompts=16)), "variant_1": Wording(right, right, None)}}
    table = paraphrases_table(formats, [3], 10, 0)
    assert len(table) == 3
    assert table["right"].eq(9).all()
    assert table["prompts"].eq(0).all()
    assert table[["jaccard", "across_halves", "effect_of_first"]].isna().all(axis=None)
    path = tmp_path / "shared/+/variants.parquet"
    write_table(table, path, PARAPHRASES, {})
    assert len(read_table(path, PARAPHRASES)) == 3
    assert "nothing to compare" in sentence_of(table, 3)


def test_a_variant_that_too_few_prompts_are_right_in_is_not_ranked(packaged, pairs):
    model, tokenizer, _ = packaged["embedded-shared"]
    train, partners = (table.head(9) for table in pairs)
    tensors = variant_tensors(Run(model, tokenizer, FIRST), train, partners, TEMPLATES, 0, 2000, "attribution")
    assert set(tensors) == {"right", "partners_right"}
    numpy = {f"1.{name}": tensor.numpy() for name, tensor in tensors.items()}
    assert variants_from(numpy, 528, TOKENS[:1], Membership())["variant_1"].effects is None


def test_partners_of_another_operator(packaged):
    _, tokenizer, _ = packaged["embedded-shared"]
    table = pd.DataFrame({"operator": ["addition", "subtraction"], "a": [9, 8], "b": [1, 2], "answer": [10, 6]})
    table = complete_problems(table, tokenizer)
    templates = {"addition": ["{a}+{b}=", "{a} + {b} = "], "subtraction": ["{a}-{b}="]}
    assert reworded(tokenizer, table, templates, 0)["prompt"].tolist() == ["9+1=", "8-2="]
    with pytest.raises(UserError, match="subtraction has no variant 2"):
        reworded(tokenizer, table, templates, 1)


def test_the_answer_follows_the_numbers():
    planted = {layer: 20.0 * (np.arange(40) < 5) for layer in (3, 4)}
    formats = {
        "s": {"canonical": canonical(cell(0, planted)), "variant_1": canonical(cell(1, planted))},
        "w": {"canonical": canonical(cell(2))},
    }
    table = paraphrases_table(formats, [5], 10, 0)
    sentence = sentence_of(table, 5)
    assert "mean Jaccard of 1.00; those of one wording and itself 1.00." in sentence
    assert "have 100% of the effect of the other's own" in sentence
    apart = table[(table["layer"] == EVERY_LAYER) & ~one_format(table)].iloc[0]
    assert (
        f"For two formats the values are {apart['across_halves']:.2f} and {apart['within_halves']:.2f}" in sentence
    )
    assert "end in the same token" not in sentence
    formats["s"]["variant_1"] = replace(formats["s"]["variant_1"], final_token=7)
    formats["s"]["canonical"], formats["w"]["canonical"] = (
        replace(formats[name]["canonical"], final_token=token) for name, token in (("s", 6), ("w", 7))
    )
    table = paraphrases_table(formats, [5], 10, 0)
    alike = table[(table["layer"] == EVERY_LAYER) & one_ending(table)].iloc[0]
    wanted = f"end in the same token, they are {alike['across_halves']:.2f} and {alike['within_halves']:.2f}."
    assert sentence_of(table, 5).endswith(wanted)
