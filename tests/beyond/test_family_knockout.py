"""Family knockout: rules by hand, sets by brute force, losses against hooks, and labels that mean nothing."""

import re
from dataclasses import replace

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from example_tables import filled
from plain_contrasts import pair
from small_prompts import CACHE_PROMPTS, plain_means, prepare

from form_invariance.beyond.family_knockout import compute
from form_invariance.beyond.family_knockout.answer import answer
from form_invariance.beyond.family_knockout.compute import Carriers, GridPrompts, carriers, cell_pairs, paired_sets
from form_invariance.beyond.family_knockout.figure import family_knockout
from form_invariance.beyond.family_knockout.table import FAMILY_KNOCKOUT, LOSSES
from form_invariance.errors import UserError
from form_invariance.experiment import intervene
from form_invariance.experiment.contrasts.engine import described, over_cells, problems_of
from form_invariance.problems.templates import render
from form_invariance.randomness import generator
from form_invariance.stages.heuristics.names import SHARED, family
from form_invariance.stages.heuristics.pairs import Grid, make_grid
from form_invariance.tables.columns import ALL

TEMPLATE = "{a}+{b}="


def labels(*rows):
    table = pd.DataFrame(rows, columns=["layer", "neuron", "heuristic"])
    return table.assign(family=table["heuristic"].map(family))


PLACES = [(2, 5), (2, 5), (2, 5), (2, 9), (3, 1), (3, 4)]
HOLDS = {
    "op1_1mod3": lambda a, b: a % 3 == 1,
    "op2_2mod3": lambda a, b: b % 3 == 2,
    "result_range_20_50": lambda a, b: 20 <= a + b < 50,
    "op1_0mod2": lambda a, b: a % 2 == 0,
    "op2_0mod5": lambda a, b: b % 5 == 0,
    "op1_range_0_10": lambda a, b: a < 10,
}
LABELS = labels(*((*place, rule) for place, rule in zip(PLACES, HOLDS, strict=True)))


def test_carriers_match_where_one_of_their_rules_holds():
    grid = make_grid("a + b", 30)
    found = {one.family: one for one in carriers(LABELS, grid)}
    assert set(found) == {ALL, *LABELS["family"]}
    pairs = list(zip(grid.a.tolist(), grid.b.tolist(), strict=True))
    for name, one in found.items():
        rows = LABELS if name == ALL else LABELS[LABELS["family"] == name]
        assert len(one.layers) == len(rows[["layer", "neuron"]].drop_duplicates())
        for place, at in enumerate(zip(one.layers, one.neurons, strict=True)):
            own, whole = (some.set_index(["layer", "neuron"]).loc[[at], "heuristic"] for some in (rows, LABELS))
            for found_there, rules in ((one.matching, own), (~one.not_matching, whole)):
                assert found_there[place].tolist() == [any(HOLDS[r](*pair) for r in rules) for pair in pairs]
    assert list(carriers(LABELS.iloc[:0], grid)) == []


def test_paired_sets_have_as_many_neurons_of_each_layer():
    rng = np.random.default_rng(0)
    layers = np.repeat([2, 3, 5], [7, 1, 12])
    matching = rng.random((20, 300)) < 0.3
    other = ~matching & (rng.random((20, 300)) < 0.6)
    own = Carriers("any", layers, np.arange(20), matching, other)
    holds, not_holds = paired_sets(own, np.random.default_rng(1))
    assert not (holds & ~matching).any()
    assert not (not_holds & ~other).any()
    for prompt in range(300):
        for layer in (2, 3, 5):
            where = layers == layer
            smaller = min(matching[where, prompt].sum(), other[where, prompt].sum())
            assert holds[where, prompt].sum() == not_holds[where, prompt].sum() == smaller
    # The larger side is sampled: if it has several neurons, each is taken in some prompts, but not in all.
    for chosen, members in ((holds, matching), (not_holds, other)):
        assert (chosen & members).any(1)[layers != 3].all()
        assert (~chosen & members).any(1)[layers != 3].all()


@pytest.mark.parametrize("center", [True, False])
def test_losses_equal_hooks(tiny, run, tiny_folder, center, monkeypatch):
    model, tokenizer = tiny
    monkeypatch.setattr(intervene, "rows_at_once", lambda model: 6)  # two prompts at once
    tokens, answers, means = prepare(model, tokenizer, "word")
    plain = plain_means(tiny_folder, tokenizer, CACHE_PROMPTS["word"], 4)
    nothing = Grid(*np.zeros((3, 0), dtype=np.int64), "addition", 10)
    rng = np.random.default_rng(4)
    layers, neurons = np.repeat([2, 3], 6), np.concatenate([rng.permutation(model.config.d_mlp)[:6] for _ in "ab"])
    own = Carriers("any", layers, neurons, *np.zeros((2, 12, len(tokens)), dtype=bool))
    sets = [(own, rng.random((12, len(tokens))) < 0.5) for _ in range(3)]
    lost = compute.losses(run, GridPrompts(nothing, tokens, answers, means), sets, center)
    bridge = oracles.bridge(tiny_folder)

    for prompt in range(len(tokens)):
        one, wanted = tokens[prompt : prompt + 1], answers[prompt : prompt + 1]
        before = oracles.readout(oracles.last_logits(bridge, one), wanted, center)
        for number, (_, chosen) in enumerate(sets):
            mask = torch.zeros(2, model.config.d_mlp, dtype=torch.bool)
            mask[layers[chosen[:, prompt]] - 2, neurons[chosen[:, prompt]]] = True
            z = oracles.ablated(bridge, one, 2, mask, plain[2:], slice(-1, None))
            after = oracles.readout(z, wanted, center)
            for metric in LOSSES:
                expected = before[metric] - after[metric]
                limit = 1e-7 if metric == "probability" else 2e-4
                np.testing.assert_allclose(lost[metric][number, prompt], expected, atol=limit)
    assert np.abs(lost["probability"]).max() > 1e-6, "the ablation did nothing"


def prompts_of(count, seed):
    """Pairs without a model."""
    grid = make_grid("a + b", 60)
    chosen = np.random.default_rng(seed).permutation(len(grid.a))[:count]
    pairs = Grid(grid.a[chosen], grid.b[chosen], grid.answer[chosen], grid.kind, grid.max_operand)
    return GridPrompts(pairs, torch.zeros(count, 1), torch.zeros(count), None)


def test_without_labels_nothing_is_told():
    assert list(cell_pairs(None, prompts_of(5, 0), {SHARED: LABELS.iloc[:0]}, ("f", "o"), True, 10, 0)) == []
    table = compute.family_knockout_table({}, 100)
    (found,) = answer({"family_knockout": table}, 100)
    assert found.sentence == "Undefined: no shared neuron has a label that can be tried."
    every = filled(FAMILY_KNOCKOUT, [(ALL, ALL, ALL, 0)], "format operator family cells", metric="accuracy")
    for one in (table, every):
        (axes, *_) = family_knockout({"family_knockout": one}, "m", 10).axes
        assert [text.get_text() for text in axes.texts] == ["no label to try"]


def test_prompts_are_right_and_their_means_come_from_others(run, monkeypatch):
    """Half of the grid, without the pairs that ranked the neurons, is tried; the other half gives the means."""
    grid, real = make_grid("a + b", 12), compute.answer

    def answer(*given):
        found = real(*given)
        found.correct[:] = torch.arange(len(found.correct)) % 3 == 0
        return found

    monkeypatch.setattr(compute, "answer", answer)
    dataset = pd.DataFrame({"a": [1, 7, 3], "b": [2, 7, 9], "split": ["train", "train", "eval"]})
    with pytest.raises(UserError, match=r"^template of addition: "):
        compute.right_prompts(run, "{a}=", grid, [dataset], 8, 7, "addition")
    prompts = compute.right_prompts(run, TEMPLATE, grid, [dataset], 8, 7, "addition")
    pairs = [pair for pair in zip(grid.a, grid.b, strict=True) if {*pair} not in ({1, 2}, {7})]
    drawn = [pairs[place] for place in generator(7, "family-knockout", "addition").permutation(141)]
    right, others = drawn[: 4 * 8 : 3], drawn[70 : 70 + 4 * 8]
    assert list(zip(prompts.pairs.a, prompts.pairs.b, strict=True)) == right
    assert (prompts.pairs.kind, prompts.pairs.max_operand) == (grid.kind, 12)
    assert torch.equal(prompts.tokens, run.tokens([render(TEMPLATE, *pair) for pair in right]))
    assert torch.equal(prompts.answers, run.answer_tokens(prompts.pairs.answer))
    expected = compute.last_token_means(run.model, run.tokens([render(TEMPLATE, *pair) for pair in others]), 2)
    torch.testing.assert_close(prompts.means.neurons[2:], expected.neurons[2:])


def test_a_cells_rows_are_of_the_streams_of_their_seed(monkeypatch):
    prompts, names = prompts_of(80, 3), ("word", "addition")
    modulo = [(2 + n % 2, n, f"op{1 + n % 2}_{n % 7}mod7") for n in range(14)]
    ranges = [(2 + n % 2, 20 + n, f"op1_range_{10 * n}_{10 * n + 20}") for n in range(4)]
    given = {SHARED: labels(*modulo, *ranges), "matched_variance": labels(*modulo[3:], *ranges)}
    seen = []
    values = {metric: np.random.default_rng(1).normal(size=(2 * 6, 80)) for metric in LOSSES}
    values["probability"][0] += 1  # the shared neurons, all families together
    monkeypatch.setattr(compute, "losses", lambda *four: seen.append(four) or values)
    pairs = list(cell_pairs("run", prompts, given, names, "center", 50, 7))
    ((run, own_prompts, sets, center),) = seen
    assert (run, own_prompts, center) == ("run", prompts, "center")
    every = [(kind, own) for kind, some in given.items() for own in carriers(some, prompts.pairs)]
    assert [key for key, _ in pairs] == [(kind, own.family, metric) for kind, own in every for metric in LOSSES]
    partly = False
    for number, (kind, own) in enumerate(every):
        both = paired_sets(own, generator(7, "family-knockout", *names, kind, own.family))
        np.testing.assert_array_equal([chosen for _, chosen in sets[2 * number :][:2]], both)
        sizes = both[0].sum(0)
        used = sizes > 0
        partly |= not used.all()
        problems = problems_of("addition", prompts.pairs.a[used], prompts.pairs.b[used])
        for metric, (_, tried) in zip(LOSSES, pairs[3 * number :], strict=False):
            same = pair(*values[metric][2 * number : 2 * number + 2, used], problems, 50, 7)
            np.testing.assert_array_equal([tried.pair.first, tried.pair.second], [same.first, same.second])
            assert tried.pair.prompts == (used.sum(),)
            assert (tried.labelled, tried.ablated) == (len(own.layers), sizes[used].mean())
    assert partly, "prompts without a rule that holds are left out"
    cells = {names: dict(pairs), ("code", "addition"): dict(pairs[:3])}
    table = compute.family_knockout_table(cells, 100)
    whole = table.query("k == 100 and format == operator == 'all' and neurons == 'shared' and family == 'all'")
    said = whole.set_index("metric")["verdict"].eq("yes").to_dict()
    assert said == {metric: metric == "probability" for metric in LOSSES}
    (found,) = answer({"family_knockout": table}, 100)
    row = whole.set_index("metric").loc["probability"]
    assert f"they cost {row['first']:z.3f} of the answer's probability" in found.sentence
    assert re.search(rf"Difference {row['difference']:z.3f} \[.*\]: yes", found.sentence)
    assert found.sentence.count("(matched by variance)") == 1, "of all families together"
    assert len(table) == 3 * (2 + 1 + 1) + (len(pairs) - 3) * (1 + 1 + 1)
    for row in table[table["format"] == ALL].to_dict("records"):
        key = row["neurons"], row["family"], row["metric"]
        tried = [cell[key] for cell in cells.values() if key in cell]
        wanted = described(over_cells(some.pair for some in tried))
        pd.testing.assert_series_equal(pd.Series({name: row[name] for name in wanted}), pd.Series(wanted))
        assert row["labelled"] == sum(some.labelled for some in tried)
        assert row["ablated"] == np.mean([some.ablated for some in tried])


def test_a_family_whose_rule_never_holds_has_no_numbers(monkeypatch):
    never = labels((2, 5, "op1_range_500_600"))
    monkeypatch.setattr(compute, "losses", lambda *_: {metric: np.ones((4, 10)) for metric in LOSSES})
    cell = dict(cell_pairs(None, prompts_of(10, 0), {SHARED: never}, ("f", "o"), True, 10, 0))
    key, tried = next(iter(cell.items()))
    known = {(name, "o"): {key: replace(tried, ablated=size)} for name, size in (("g", 3.0), ("h", 5.0))}
    sizes = compute.family_knockout_table({("f", "o"): {key: tried}, **known}, 100)["ablated"].tolist()
    assert sizes == pytest.approx([np.nan, 3, 5, 4, 4], nan_ok=True)
    table = compute.family_knockout_table({("f", "o"): cell}, 100)
    assert (table[["cells", "prompts"]] == 0).all(axis=None)
    assert table[["ablated", "first", "second", "difference", "low", "high"]].isna().all(axis=None)
    assert answer({"family_knockout": table}, 100)[0].sentence.startswith("Undefined: ")
