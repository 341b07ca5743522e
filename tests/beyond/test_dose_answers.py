"""The size that decides a question along the dose, and the answers and the figure, from made-up contrasts."""

import re

import numpy as np
import pandas as pd
import pytest
from example_tables import crossed

from form_invariance.beyond.dose.answer import answer
from form_invariance.beyond.dose.figure import dose
from form_invariance.beyond.specificity.answer import answer as task_answers
from form_invariance.experiment.contrasts.entries import CONTRASTS as ENTRIES
from form_invariance.experiment.contrasts.entries import DOSE
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.contrasts.verdicts import AT_FLOOR, dose_shares, question_rows
from form_invariance.tables.columns import ALL

K, KS, MOST = 10, (1, 5, 20), 0.8
"""The circuit size, the sizes along the dose, and what all late neurons cost."""
SHARES = {
    "knockout": {"one": (0.1, 0.45, 0.9), "two": (0.6, 0.9, 1.0), ALL: (0.35, 0.7, 0.95)},
    "keep_only": {"one": (0.0, 0.1, 0.4), "two": (0.2, 0.55, 0.9), ALL: (0.1, 0.3, 0.65)},
}
"""What the own best lose, or keep, of what can be lost; and the sizes that are nearest to half."""
SIZES = {"knockout": {"one": 5, "two": 1, ALL: 1}, "keep_only": {"one": 20, "two": 5, ALL: 20}}
SHARED = {"one": (0.05, 0.2, 0.55), "two": (0.3, 0.6, 0.9), ALL: (0.1, 0.35, 0.6)}
"""What the shared neurons lose."""
LOSSES = ["loss_of_own_best", "loss_of_all_late", "loss_of_shared"]
ALONG = [name for name, entry in ENTRIES.items() if entry.sizes == DOSE and "knockout" in entry.metrics]
EXCHANGED, COPIED = "exchanged_minus_own_beyond_control", "own_minus_copied_of_own"


def rows(contrast, intervention="knockout", k=KS, **numbers):
    """Rows of contrasts; `second` is k / 1000."""
    cells = {"format": [ALL, "s"], "operator": ["one", "two", ALL], "cells": 2, "prompts": 30}
    how = {"contrast": contrast, "intervention": intervention, "k": list(k), "metric": "probability"}
    told = {"first": 0.5, "second": lambda table: table["k"] / 1000, "difference": 0.3, "low": 0.2, "high": 0.4}
    told |= {"ratio": 0.9, "ratio_low": 0.85, "ratio_high": 1.1, "limit_error": 0, "ratio_error": 0}
    told |= {"verdict": "yes", "task": "own"}
    return crossed(CONTRASTS, **cells | how | told | numbers)


def contrasts(most=MOST, **lost):
    """The contrasts of two operators; `lost` replaces operators' knockout shares."""
    names = [*(name for name in ALONG if name not in LOSSES), "loss_of_own_best_in_layers_2_to_3"]
    parts = [rows(names), rows(EXCHANGED, "keep_only"), rows("circuit_minus_control_everywhere", k=[K])]
    parts += [rows("loss_of_all_late", first=most), rows("loss_of_own_best_direct", "direct", first=0.25)]
    for how, kept in (("knockout", 0), ("keep_only", most)):
        own, shares = rows("loss_of_own_best", how), SHARES[how] | (lost if how == "knockout" else {})
        cells = zip(own["operator"], own["k"], strict=True)
        parts.append(own.assign(first=[most * shares[of][KS.index(k)] - kept for of, k in cells]))
    shared = rows("loss_of_shared")
    cells = zip(shared["operator"], shared["k"], strict=True)
    parts.append(shared.assign(first=[most * SHARED[of][KS.index(k)] for of, k in cells]))
    return pd.concat(parts, ignore_index=True)


def decided(table, metric="probability"):
    """The rows that decide about exchange, by format and operator."""
    found = pd.concat(question_rows(table)).query("question == 'exchange' and metric == @metric")
    return found.set_index(["format", "operator"])


@pytest.mark.parametrize(("metric", "how"), [("probability", "knockout"), ("probability kept", "keep_only")])
def test_a_question_is_decided_where_the_own_best_lose_half_of_what_can_be_lost(metric, how):
    """Each operator has its own size, for knockout and for keep-only; a format takes its operator's."""
    found = decided(contrasts(), metric)
    assert len(found) == 2 * 3
    assert found["k"].eq(K).all()
    for (_, operator), row in found.iterrows():
        assert row["at_k"] == SIZES[how][operator]
        assert row["share"] == pytest.approx(SHARES[how][operator][KS.index(row["at_k"])])
        assert (row["second"], row["verdict"]) == (row["at_k"] / 1000, "yes")


def test_where_every_size_loses_nearly_all_the_smallest_is_undecided_at_the_floor():
    full = contrasts(two=(0.81, 0.9, 1.0))
    found = decided(full).loc[ALL]
    assert found.loc["two", ["at_k", "verdict"]].tolist() == [1, AT_FLOOR]
    assert found.loc["one", "verdict"] == found.loc[ALL, "verdict"] == "yes"
    assert decided(full.assign(ratio_low=np.nan)).loc[(ALL, "two"), "verdict"] == "undefined"
    assert dose_shares(contrasts(most=0.0), "loss_of_own_best")["share"].isna().all(), "nothing can be lost"


def test_a_mean_does_not_hide_that_most_formats_are_at_the_floor():
    table = contrasts()
    more = [table[table["format"] == "s"].assign(format=name) for name in ("c", "w")]
    table = pd.concat([table, *more], ignore_index=True)
    lost = (table["contrast"] == "loss_of_own_best") & (table["intervention"] == "knockout")
    saturated = table["format"].isin(["c", "w"])
    assert decided(table).loc[(ALL, ALL), "verdict"] == "yes"
    table.loc[lost & saturated, "first"] = 0.9 * MOST
    assert decided(table).loc[(ALL, ALL), "verdict"] == AT_FLOOR


def test_what_is_asked_of_the_shared_neurons_is_decided_where_they_lose_half():
    found = pd.concat(question_rows(contrasts()))
    found = found.query("question == 'shared' and format == 'all'").set_index("operator")
    assert found["at_k"].to_dict() == {"one": 20, "two": 5, ALL: 20}
    assert found["share"].to_dict() == pytest.approx({"one": 0.55, "two": 0.6, ALL: 0.6})


SENTENCES = [
    "Knocked out at k = 1 (own best: 35% of what can be lost), other formats' best cost 0.500 more probability "
    "than the strongest control, the own best 0.001: ratio 0.90 [0.85, 1.10]. Kept alone at k = 20 (own best: 65%"
    " of what can be kept), other formats' best keep 0.500 more probability than the strongest control, the own "
    "best 0.020: ratio 0.90 [0.85, 1.10]. Knocked out at k = 1 (own best: 35% of what can be lost), other "
    "operators' best in these formats cost 0.001, the operator's own there 0.500: difference 0.300 [0.200, "
    "0.400]: yes.",
    "Knocked out at k = 20 (shared: 60% of what can be lost), the shared neurons cost 0.500 probability, as many "
    "random members of the own best 0.020: difference 0.300 [0.200, 0.400]: yes.",
    "Knocked out at k = 20 (shared: 60% of what can be lost), an operator's shared neurons cost its own answers "
    "0.500, the strongest choice of other operators' 0.020: least difference over all choices 0.300 [0.200, "
    "0.400]: yes. Beyond matched controls, they cost the own answers 0.500 and the other operators' 0.020: "
    "difference 0.300 [0.200, 0.400]: yes.",
    "At k = 1 the own best cost 0.28 probability (all late neurons: 0.80). Where the change reaches the final "
    "residual stream alone, past all later layers, it costs 0.25. An equal cost means that the neurons write the "
    "answer; what computes it is not shown. Knocked out in some layers alone: layer 2 to 3 0.50. Problems are "
    "resampled; operators, formats and directions are fixed.",
]


def test_answers_say_the_numbers_of_the_size_that_decides():
    answers = answer({"contrasts": contrasts()}, K)
    assert [told.sentence for told in answers] == SENTENCES
    assert [told.figures for told in answers] == 4 * [("dose",)]
    exchanged = {EXCHANGED, "half_minus_own_beyond_control", "exchanged_minus_other_operators_best"}
    exchanged |= {"other_formats_minus_own", "other_operators_minus_own"}
    assert set(answers[0].table["contrast"]) == exchanged
    full = contrasts(**{ALL: (0.81, 0.9, 1.0)})
    told = answer({"contrasts": full.assign(ratio=np.nan, low=np.nan)}, K)
    assert "k = 1 (own best: 81% of what can be lost, so no size tells sets apart)" in told[0].sentence
    assert "0.001: no ratio, because the own best's interval is not above zero." in told[0].sentence
    assert "difference 0.300 [no interval]: yes." in told[1].sentence
    undefined = answer({"contrasts": contrasts().assign(cells=0)}, K)
    assert all(told.sentence.startswith("Undefined: no ") for told in undefined)


def test_copying_is_spared_at_the_circuit_size_or_the_largest_that_was_measured():
    computed = {"k": [1, 5], "metric": ["probability", "margin"], "first": 0.4, "second": 0.5}
    parts = rows("own_minus_copied_of_own", **computed), rows("circuit_minus_control", k=[1, 5])
    table = pd.concat([contrasts(), *parts])
    (told,) = task_answers({"contrasts": table}, K)
    assert told.sentence == (
        "Knocked out, the shared neurons (k = 5) cost the operator's own answers 0.500 more probability than a "
        "control does, and answers that copy a number of the prompt 0.100: copying is spared 90% of the loss (95 "
        "% interval 85% to 110%). Of the margin over the next answer, copying is spared 90% of the loss (95 % "
        "interval 85% to 110%)."
    )
    assert told.table["second"].tolist() == [0.005]
    (told,) = task_answers({"contrasts": table.assign(ratio=np.nan)}, K)
    assert told.sentence.count("there is no share, because the interval of the former is not above zero") == 2


def test_the_figure_has_a_panel_of_losses_one_of_ratios_and_one_of_what_is_kept():
    figure = dose({"contrasts": contrasts()}, "m", K)
    assert figure.get_suptitle().endswith("n = 30 right answers in 2 cells; bands: 95 % intervals over problems")
    lost, ratios, kept = ([list(line.get_ydata()) for line in axes.lines] for axes in figure.axes)
    assert [share * MOST for share in SHARES["knockout"][ALL]] in lost
    assert pytest.approx([share * MOST for share in SHARES["keep_only"][ALL]]) in kept, "beyond nothing"
    assert (3 * [MOST] in lost, 3 * [0.9] in ratios) == (True, True)
    alone = contrasts().query(
        "contrast in ['loss_of_own_best', 'loss_of_all_late'] and intervention == 'knockout'"
    )
    texts = [text.get_text() for text in dose({"contrasts": alone}, "m", K).legends[0].get_texts()]
    assert (len(figure.legends[0].get_texts()), texts) == (6, ["the format's own best", "all late neurons"])
    for table in (alone.assign(cells=0), alone.iloc[:0]):
        assert dose({"contrasts": table}, "m", K).get_suptitle().endswith("the model cannot do the problems")


def numbers_in(sentence):
    """Numbers as they are, and shares in percent."""
    found = re.findall(r"(\d+(?:\.\d+)?)( ?%)?", sentence)
    return [round(float(number) / (100 if share else 1)) for number, share in found]


def test_no_sentence_compares_what_was_measured_in_different_ways():
    """A number identifies its row: positions, means, intervention, size, and whether a control is subtracted."""
    tasks = [rows(COPIED, k=[K], metric=metric) for metric in ("probability", "margin")]
    table = pd.concat([contrasts(), *tasks], ignore_index=True)
    columns = ["first", "second", "difference", "low", "high", "ratio", "ratio_low", "ratio_high"]
    numbers = 1000 + np.arange(len(table) * len(columns)).reshape(len(table), -1)
    table[columns] = numbers
    tables, seen = {"contrasts": table}, 0
    for told in [*answer(tables, K), *task_answers(tables, K)]:
        for sentence in re.split(r"(?<=[.;]) ", told.sentence):
            told_rows = {(number - 1000) // len(columns) for number in numbers_in(sentence) if number in numbers}
            compared = table.loc[sorted(told_rows)]
            ways = set()
            for name, how, k in compared[["contrast", "intervention", "k"]].itertuples(index=False, name=None):
                entry = ENTRIES.get(name, ENTRIES["loss_of_own_best"])
                ways.add((entry.positions, entry.means, how, k, "beyond" in name + entry.compared))
            assert len(ways) < 2, sentence
            seen += len(compared)
    assert seen == 12
