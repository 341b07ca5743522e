from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from hugging_face import HuggingFace
from small_prompts import PROMPTS

from form_invariance.beyond.engine_check.transformer_lens_bridge import residual_before
from form_invariance.experiment.controls import Draws, circuit_set, labels_of, masks_of
from form_invariance.experiment.intervene import read_replaced
from form_invariance.experiment.neuron_sets import CIRCUIT
from form_invariance.model.replay import build_cache
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.transfer import directions
from form_invariance.stages.transfer.compute import Donors, run_group, transfer_residual
from form_invariance.stages.transfer.conditions import Condition, Group, pair_censuses, plan, plan_direction
from form_invariance.stages.transfer.copies import answers_of_donors, right_copies, with_copies
from form_invariance.stages.transfer.directions import RATES, permuted, transfer_tables
from form_invariance.stages.transfer.names import CEILINGS, NO_DONOR, NONE, OTHER_NEURONS, RESIDUAL
from form_invariance.stages.transfer.neuron_sets import FormatValues, neuron_sets

DRAWS = Draws(random=5, matched=3, seed=0)


def test_the_residual_ceiling_equals_hooks(run, tiny_folder):
    pairs = [(226, 68), (17, 433), (99, 6)]
    prompts = {name: [PROMPTS[name].format(a=a, b=b) for a, b in pairs] for name in ("symbolic", "word")}
    target, donor = (run.tokens(prompts[name]) for name in ("symbolic", "word"))
    answers = run.answer_tokens(np.array([a + b for a, b in pairs]))
    bridge, place = oracles.bridge(tiny_folder), residual_before(2)
    _, found = bridge.run_with_cache(donor, names_filter=[place])
    z = oracles.last_logits(bridge, target, [(place, oracles.at_last_token(lambda _: found[place][:, -1]))])
    given = Donors(run, prompts["word"]).residual(prompts["word"])
    np.testing.assert_allclose(given, found[place][:, -1].detach(), atol=1e-5)
    got = transfer_residual(run.model, build_cache(run.model, target, 2), given, answers, True)
    assert got.predicted[0].tolist() == z.argmax(-1).tolist()
    np.testing.assert_allclose(got.normalized_logit[0], oracles.normalized_logit(z, answers, True), atol=1e-4)


def census(correct, name, uniform=lambda a: True):
    """All pairs of a small grid; a wrong answer is too large by one, and a number's token is 100 times it."""
    pairs = list(product(range(6, 16), range(6, 12)))
    a, b = np.transpose(pairs)
    table = pd.DataFrame({"a": a, "b": b, "answer": a + b, "correct": correct(a, b), "uniform": uniform(a)})
    table["prompt"] = [f"{name} {a} {b}" for a, b in pairs]
    table["answer_token"] = 100 * table["answer"]
    return table.assign(predicted_token=table["answer_token"] + 100 * ~table["correct"])


def operands(prompts):
    return [tuple(map(int, prompt.split()[1:])) for prompt in prompts]


def test_conditions_choose_the_right_pairs():
    pairs = pair_censuses(census(lambda a, b: a != 7, "D"), census(lambda a, b: b > 8, "T"))
    failed, both, reverse = plan_direction(pairs, "D", "T", 1000, 0, "addition")
    right = {c.name: c for c in failed.conditions}
    prompts, answers = failed.pairs["prompt"].tolist(), failed.pairs["answer"].to_numpy()
    assert len(prompts) == len(both.pairs) == 9 * 3
    assert all(b <= 8 and a != 7 for a, b in operands(prompts))
    matched = {"matched", *OTHER_NEURONS, *CEILINGS}
    assert set(right) == matched | {"mismatched", "same_answer", "same_format", NO_DONOR}
    for name in matched:
        assert right[name].donors == [prompt.replace("T", "D") for prompt in prompts], name
        assert right[name].neurons == (CIRCUIT if name == "matched" else name)
        assert (right[name].donor_tokens == 100 * answers).all()
    other, same, own, nobody = (right[name] for name in ("mismatched", "same_answer", "same_format", NO_DONOR))
    assert (other.donor_tokens != 100 * answers[other.targets]).all()
    assert set(other.donors) <= set(right["matched"].donors)
    assert (same.donor_tokens == 100 * answers[same.targets]).all()
    for given, target in zip(operands(same.donors), operands(np.array(prompts)[same.targets]), strict=True):
        assert sorted(given) != sorted(target)
    assert own.format == "T"
    assert all(b > 8 for _, b in operands(own.donors))
    assert (nobody.format, nobody.averaged, nobody.neurons) == ("T", True, CIRCUIT)
    assert nobody.donor_tokens.tolist() == [-1] * len(prompts)
    harm, harm_random, exchanged = both.conditions
    assert [c.name for c in both.conditions] == ["harm_matched", "harm_random", "interchange"]
    assert (harm.neurons, harm_random.neurons) == (CIRCUIT, "random")
    assert harm.donors == harm_random.donors == [prompt.replace("T", "D") for prompt in both.pairs["prompt"]]
    assert exchanged.format == "D"
    assert all(a != 7 and b > 8 for a, b in operands(exchanged.donors))
    assert (exchanged.donor_tokens != 100 * both.pairs["answer"].to_numpy()[exchanged.targets]).all()
    assert (exchanged.donor_tokens == [100 * (a + b) for a, b in operands(exchanged.donors)]).all()
    (backwards,) = reverse.conditions
    assert operands(reverse.pairs["prompt"].sort_values()) == [(7, 10), (7, 11), (7, 9)]
    assert backwards.donors == [prompt.replace("T", "D") for prompt in reverse.pairs["prompt"]]
    assert (backwards.donor_tokens == 100 * (reverse.pairs["answer"] + 1)).all()
    assert [group.right_before for group in (failed, both, reverse)] == [False, True, True]


def test_copying_donors_have_the_answers_of_those_that_compute():
    censuses = {"D": census(lambda a, b: a != 7, "D"), "T": census(lambda a, b: b > 8, "T")}
    plans = plan(censuses, [], 1000, 0, "addition")
    # The first of the targets has no donor with another answer.
    conditions = plans["D", "T"][1].conditions
    cut = {name: getattr(conditions[-1], name)[1:] for name in ("targets", "donors", "donor_tokens")}
    conditions[-1] = replace(conditions[-1], **cut)
    # Answers 12 to 26; those from 20 on have no copy, each other has two.
    copies = pd.DataFrame({"a": np.arange(12, 20).repeat(2)})
    copies["prompt"] = [f"C {a} {place}" for place, a in enumerate(copies["a"])]
    copies["answer_token"] = 100 * copies["a"]
    failed, both, _ = with_copies(plans, {"D": copies}, 0, "addition")["D", "T"]
    (computed,) = (c for c in both.conditions if c.name == "interchange")
    for group, name, targets, tokens in (
        (failed, "copied_answer", np.arange(len(failed.pairs)), 100 * failed.pairs["answer"].to_numpy()),
        (both, "copied_other", computed.targets, computed.donor_tokens),
    ):
        condition, kept = group.conditions[-1], tokens < 2000
        assert 0 < kept.sum() < len(kept)
        assert condition.targets.tolist() == targets[kept].tolist()
        assert condition.donor_tokens.tolist() == tokens[kept].tolist()
        assert [100 * a for a, _ in operands(condition.donors)] == tokens[kept].tolist()
        assert (condition.name, condition.format, condition.neurons) == (name, "D", CIRCUIT)
        assert len(set(condition.donors)) > len(set(tokens[kept].tolist()))
    needed = {*failed.pairs["answer_token"], *computed.donor_tokens}
    assert answers_of_donors(plans, "D").tolist() == sorted(needed)


def test_no_train_pair_gives_or_receives_and_no_pair_added_later_receives():
    right = {"D": lambda a, b: a % 3 != 0, "T": lambda a, b: b % 2 == 0, "U": lambda a, b: a % 2 == 1}
    censuses = {name: census(correct, name, uniform=lambda a: a != 9) for name, correct in right.items()}
    datasets = [
        pd.DataFrame({"split": ["train", "train", "eval"], "a": [10, 14, 13], "b": [8, 7, 8]}),
        pd.DataFrame({"split": ["train", "eval"], "a": [11, 11], "b": [7, 9]}),
    ]
    plans = plan(censuses, datasets, 1000, 0, "addition")
    groups = [group for groups in plans.values() for group in groups]
    received = {pair for own in groups for pair in zip(own.pairs["a"], own.pairs["b"], strict=True)}
    given = {pair for own in groups for c in own.conditions for pair in operands(c.donors)}
    assert not {(8, 10), (7, 14), (7, 11)} & {tuple(sorted(pair)) for pair in received | given}
    # Eval pairs and pairs in no dataset receive.
    assert {(13, 8), (11, 9), (12, 6)} <= received
    assert 9 not in {a for a, _ in received}
    assert 9 in {a for a, _ in given}


def test_a_neuron_without_a_row_has_no_value(run):
    table = pd.DataFrame({"layer": [1, 2, 3], "neuron": [5, 0, 7], "rank": [1.0, 2.0, 3.0]})
    values = replace(run, first=1).by_neuron(table, "rank")
    assert np.argwhere(~np.isnan(values)).tolist() == [[0, 5], [1, 0], [2, 7]]
    assert values[~np.isnan(values)].tolist() == [1, 2, 3]


def test_every_set_has_its_neurons(run):
    rng, formats = np.random.default_rng(0), {}
    for name in ("symbolic", "word"):
        rank = np.stack([rng.permutation(run.width) + 1.0 for _ in run.late])
        formats[name] = FormatValues(rng.random(rank.shape), -rank / run.width, rank)
    ks, sizes = [4, 9, 60], [3, 6, 60]
    order = np.stack([rng.permutation(run.width) for _ in run.late])
    circuits = {k: order < size for k, size in zip(ks, sizes, strict=True)}
    for (donor, _), sets in neuron_sets(run, circuits, {}, formats, "addition", DRAWS).items():
        members = masks_of(sets[CIRCUIT])
        assert labels_of(sets[CIRCUIT])["k"].tolist() == ks
        assert (members == [*circuits.values()]).all()
        for name, draws in (("random", 5), ("random_variance", 3), ("random_effect", 3)):
            # 60 of 80 neurons leave too few others for a control.
            assert len(sets[name]) == 2 * draws
            for control in sets[name]:
                own = members[ks.index(control.label["k"])]
                assert not (control.members & own).any()
                assert control.members.sum(1).tolist() == own.sum(1).tolist()
            assert len(np.unique(masks_of(sets[name]).reshape(2 * draws, -1), axis=0)) == 2 * draws
        best = sets["not_shared"]
        assert labels_of(best)["k"].tolist() == [4, 9]
        for own, chosen in zip(members, best, strict=False):
            for late in range(2):
                order = np.argsort(formats[donor].rank[late])
                wanted = [neuron for neuron in order if not own[late, neuron]][: int(own[late].sum())]
                assert set(np.flatnonzero(chosen.members[late])) == set(wanted)
        assert sets["all_late"][0].members.all()
        assert not sets[RESIDUAL][0].members.any()


def test_the_matched_control_follows_the_target(run):
    order = np.tile(np.arange(run.width, dtype=float), (2, 1))
    turned, unknown = order[:, ::-1], np.full_like(order, np.nan)
    formats = {"symbolic": FormatValues(order, order, order + 1), "word": FormatValues(turned, unknown, order + 1)}
    # The circuit has the ten neurons that are largest in one format and smallest in the other.
    sets = neuron_sets(run, {10: order >= run.width - 10}, {}, formats, "addition", DRAWS)
    for target, donor in (("symbolic", "word"), ("word", "symbolic")):
        drawn = masks_of(sets[donor, target]["random_variance"])
        assert drawn[:, :, run.width // 2 :].sum() == drawn.sum()
    assert len(sets["symbolic", "word"]["random_effect"]) == 0
    assert len(sets["word", "symbolic"]["random_effect"]) == 3


def small_group():
    pairs = [(6, 7), (8, 9), (10, 11), (12, 13), (14, 15)]
    given = [PROMPTS["word"].format(a=a, b=b) for a, b in pairs]
    tokens = np.array([a + b for a, b in pairs])
    table = pd.DataFrame(pairs, columns=["a", "b"]).assign(answer=tokens, answer_token=tokens)
    table["prompt"] = [f"{a}+{b}=" for a, b in pairs]
    some = Condition("some", np.array([0, 1, 4]), "word", [given[0], given[1], given[4]], tokens[[0, 1, 4]])
    mean = Condition(NO_DONOR, np.array([0, 2]), "symbolic", ["", ""], np.array([-1, -1]), averaged=True)
    every = Condition("every", np.arange(5), "word", given, tokens)
    nobody = Condition("nobody", np.array([], dtype=int), "word", [], np.array([], dtype=int))
    ceiling = Condition(RESIDUAL, np.arange(5), "word", given, tokens, RESIDUAL)
    return Group(table, [every, some, nobody, ceiling, mean])


@pytest.mark.parametrize("most", [6, 20, 500])
def test_copying_prompts_are_asked_of_every_wanted_answer_alike(run, monkeypatch, most):
    """Numbers go from 2 to 9, and 3 to 6 are wanted; the second template has seven more prompts of each."""
    limits = OperandRange(2, 9, 2, 9)
    tasks = {one: (Arithmetic(one, limits), f"{{a}}+{{{one}}}=") for one in "ab"}
    wanted, asked = run.answer_tokens(np.arange(3, 7)), []

    def answer(run, tokens, right):
        asked.append(right)
        return SimpleNamespace(correct=right != wanted[0])

    monkeypatch.setattr("form_invariance.stages.transfer.copies.answer", answer)
    found = right_copies(run, tasks, wanted.numpy(), most, 0)
    number = asked[0].unique(return_counts=True)[1].tolist()
    assert sorted(number) == {6: [1, 1, 2, 2], 20: [5, 5, 5, 5], 500: [8, 8, 8, 8]}[most]
    right = {f"{a}+{b}=": b for b in range(3, 7) for a in range(2, 10)}
    assert found["prompt"].is_unique
    assert found["answer_token"].tolist() == run.answer_tokens(found["prompt"].map(right).to_numpy()).tolist()
    assert len(found) == len(asked[0]) - int((asked[0] == wanted[0]).sum())


def test_donors_equal_hooks_on_hugging_face(run, tiny_folder):
    """Some donors compute other answers, some copy."""
    theirs = HuggingFace(tiny_folder)
    pairs, order = small_group().pairs, [1, 2, 3, 4, 0]
    donors = [PROMPTS["word"].format(a=a, b=b) for a, b in pairs[["a", "b"]].to_numpy()[order]]
    computed = Condition("interchange", np.arange(5), "word", donors, pairs["answer_token"].to_numpy()[order])
    plans = {("word", "symbolic"): [Group(pairs, []), Group(pairs, [computed], True), Group(pairs.iloc[:0], [])]}
    tokens = pairs["answer_token"].tolist()[1:]
    copies = pd.DataFrame({"prompt": [PROMPTS["code"].format(a=a, b=a) for a in tokens], "answer_token": tokens})
    plans = with_copies(plans, {"word": copies}, 0, "addition")
    masks = torch.rand(3, 2, run.width, generator=torch.Generator().manual_seed(0)) < 0.5
    masks[2] = True
    ((_, _, by_pair),) = transfer_tables(run, plans, {}, {("word", "symbolic"): small_sets(run, masks)}, True)
    assert by_pair["intervention"].value_counts().tolist() == [15, 12, 12]
    copy_of = dict(zip(tokens, copies["prompt"], strict=True))
    for row in by_pair.itertuples():
        place = pairs[["a", "b"]].to_numpy().tolist().index([row.a, row.b])
        given = pairs["answer_token"][place if row.intervention == "copied_answer" else order[place]]
        donor = donors[place] if row.intervention == "interchange" else copy_of[given]
        held = theirs.neurons(run.tokens([donor]))[:, 0, -1]

        def replaced(layer, post, held=held, k=row.k):
            if layer >= run.first:
                post = post.clone()
                post[:, -1] = torch.where(masks[k - 1, layer - run.first], held[layer], post[:, -1])
            return post

        with torch.no_grad():
            p = theirs.logits(run.tokens([pairs["prompt"][place]]), replaced)[0].softmax(-1)
        np.testing.assert_allclose(row.probability, p[pairs["answer_token"][place]], rtol=1e-4)
        assert row.donor_answer == (p.argmax() == given)


def small_sets(run, masks):
    nothing = np.zeros((len(run.late), run.width), dtype=bool)
    circuits = [circuit_set(mask.numpy(), k) for k, mask in enumerate(masks, 1)]
    return {CIRCUIT: circuits, RESIDUAL: [circuit_set(nothing, NONE)]}


def test_a_group_in_batches_and_a_condition_without_pairs(run, monkeypatch):
    group = small_group()
    donors = {"word": Donors(run, group.conditions[0].donors)}
    masks = torch.rand(2, 2, run.width, generator=torch.Generator().manual_seed(0)) < 0.5
    sets = small_sets(run, masks)
    means = {"symbolic": torch.randn(2, run.width, generator=torch.Generator().manual_seed(1))}
    whole = run_group(run, group, donors, means, sets, True)
    assert set(whole) == {"every", "some", RESIDUAL, NO_DONOR}
    for module, rows in (("stages.transfer.compute", 4), ("experiment.intervene", 2)):
        monkeypatch.setattr(f"form_invariance.{module}.rows_at_once", lambda model, rows=rows: rows)
    pieces = run_group(run, group, donors, means, sets, True)
    for name, one in pieces.items():
        expected = whole[name].normalized_logit
        np.testing.assert_allclose(one.normalized_logit, expected, atol=1e-5, err_msg=name)
    # Without a donor, every pair's neurons take the same means.
    prompts = group.pairs["prompt"].iloc[[0, 2]].tolist()
    answers = torch.tensor(group.pairs["answer_token"].iloc[[0, 2]].tolist())
    cache = build_cache(run.model, run.tokens(prompts), run.first)
    given = means["symbolic"][:, None].expand(-1, 2, -1)
    expected = read_replaced(run.model, cache, answers, masks, given, True)
    np.testing.assert_allclose(whole[NO_DONOR].normalized_logit, expected.normalized_logit, atol=1e-5)


def test_permuted_donors_by_loops():
    rng = np.random.default_rng(0)
    predicted, tokens = torch.from_numpy(rng.integers(0, 6, (3, 8))), torch.from_numpy(rng.integers(1, 5, 8))
    right = torch.from_numpy(rng.integers(1, 5, 8))
    found = permuted(predicted, tokens, right)
    for setting, pair in np.ndindex(3, 8):
        others = [int(token) for place, token in enumerate(tokens) if place != pair and token != right[pair]]
        assert found[setting, pair] == np.mean([token == predicted[setting, pair] for token in others])
    assert permuted(predicted[:, :1], tokens[:1], right[:1]).isnan().all()


def test_rates_are_means_over_pairs_and_nothing_is_not_zero(run, monkeypatch):
    monkeypatch.setattr(
        directions, "permuted", lambda predicted, *_: torch.arange(predicted.numel()).view(predicted.shape)
    )
    masks = torch.rand(3, 2, run.width, generator=torch.Generator().manual_seed(0)) < 0.5
    masks[1] = False
    sets = {("word", "symbolic"): small_sets(run, masks)}
    plans = {("word", "symbolic"): [small_group()]}
    means, key = {"symbolic": torch.zeros(2, run.width)}, ["condition", "k", "seed"]
    ((_, rates, by_pair),) = transfer_tables(run, plans, means, sets, True)
    assert rates["condition"].value_counts().tolist() == [3, 3, 3, 3, 1]
    nothing = (rates["k"] == 2) | (rates["condition"] == "nobody")
    assert rates.loc[nothing, RATES].isna().all(axis=None)
    defined = rates[~nothing].set_index(key).sort_index()
    assert defined[RATES].notna().all(axis=None)
    by_pair = by_pair.rename(columns={"correct": "recovered"})
    by_pair["condition"] = by_pair["intervention"].mask(by_pair["neurons"] == RESIDUAL, RESIDUAL)
    means_of = by_pair.groupby(key)[["recovered", "donor_answer"]].mean()
    pd.testing.assert_frame_equal(means_of, defined[["recovered", "donor_answer"]])
    assert by_pair.groupby(key).size().eq(defined["pairs"]).all()
    of_setting = by_pair.groupby(key)["permuted_answer"]
    assert (by_pair["permuted_answer"] % of_setting.transform("size") == of_setting.cumcount()).all()
