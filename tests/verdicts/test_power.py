"""What a Jaccard means and which verdicts find it, on models that share a known part of each format's neurons.

A part of the prompts gives a set that has each circuit neuron with probability p; the rest of the set are neurons
that no other set has. A neuron is in the circuits of all n formats or of one.
"""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from graded_models import PLANTED, write_model
from planted_models import TEMPLATES, census_of, run_of
from scipy.optimize import brentq

from form_invariance.beyond.dose.compute import dose_table, run_cell
from form_invariance.experiment.contrasts.cells import Measured
from form_invariance.experiment.contrasts.compute import contrasts_table
from form_invariance.experiment.contrasts.questions import SERVES
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.verdicts import question_rows
from form_invariance.experiment.controls import Draws
from form_invariance.experiment.intervene import start
from form_invariance.experiment.measurements import FORMAT_MEANS
from form_invariance.experiment.membership import from_tensors, to_tensors
from form_invariance.experiment.neuron_sets import HALVES
from form_invariance.experiment.ranked_sets import matched_by
from form_invariance.experiment.ranked_sets import ranked as ranked_sets
from form_invariance.stages.attribution.candidates import candidates_of
from form_invariance.stages.attribution.compute import first_stage
from form_invariance.stages.circuit.compute import circuit_members, circuit_table
from form_invariance.stages.dataset.compute import Choice, make_dataset
from form_invariance.stages.dataset.prompts import eval_prompts, eval_rows, train_prompts
from form_invariance.stages.interventions.compute import Choices
from form_invariance.stages.interventions.compute import cell as intervene_cell
from form_invariance.stages.mean_cache import compute as mean_cache
from form_invariance.stages.overlap.compute import overlap_table, reliability_table
from form_invariance.stages.patching.compute import patch_candidates
from form_invariance.stages.patching.ranking import rank_cell
from form_invariance.stages.transfer.conditions import plan
from form_invariance.stages.transfer.directions import transfer_tables
from form_invariance.stages.transfer.neuron_sets import measure, neuron_sets
from form_invariance.tables.columns import EVERY_LAYER

SHARES, SEEDS = (0, 0.25, 0.5, 0.75, 1), 5
KS, DOSES = (PLANTED // 2, PLANTED, 2 * PLANTED), (1, 2, 4, 8, PLANTED)
OPERATOR, RESAMPLES = "addition", 200


def ranked(run, template, seed):
    """Census, dataset, effects and ranking of a format."""
    census, choice = census_of(run, template, OPERATOR, 600, seed), Choice(40, 30, draws=1, seed=seed)
    dataset, corrupt = make_dataset({OPERATOR: (census, template)}, OPERATOR, choice)
    prompts = dataset[dataset["split"] == "train"].sort_values("index", ignore_index=True)
    train = train_prompts(prompts, [corrupt], run.tokenizer, run.model.device)
    attribution = first_stage(run, train, run.width)
    candidates = candidates_of(attribution, run.model.device)
    tensors = to_tensors(patch_candidates(run, train, candidates), candidates)
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
    ranking = rank_cell(arrays, attribution)
    effects = from_tensors(arrays, run.width)
    return SimpleNamespace(census=census, dataset=dataset, effects=effects, ranking=ranking)


def tables_of(folder, seed, ks):
    """Overlap and reliability at each k; the contrasts of the circuit of `PLANTED`, and the verdicts' rows."""
    run, draws = run_of(folder), Draws(5, 5, seed)
    cells = {name: ranked(run, template, seed) for name, template in TEMPLATES.items()}
    effects = {name: replace(cell.effects, name=name) for name, cell in cells.items()}
    ranks = ranked_sets({(name, OPERATOR): own for name, own in effects.items()})
    circuits = {PLANTED: circuit_members(circuit_table(effects, [PLANTED]), PLANTED, run.late, run.width)}
    datasets = [cell.dataset for cell in cells.values()]
    choices = Choices(OPERATOR, draws, RESAMPLES, center=True)
    measured, averages, by_prompt = {}, {}, []
    for name, cell in cells.items():
        chosen = mean_cache.choose_prompts({OPERATOR: cell.census}, datasets, 300, seed)
        means = mean_cache.compute(run.model, run.tokenizer, list(chosen.values()))
        averages[name] = means.last_token(run.first)
        measured[name] = measure(run, cell.ranking, means.late_variance(run.first))
        prompts = eval_prompts(cell.dataset, run)
        _, ablated = intervene_cell(run, *prompts, circuits, {}, cell.ranking, {FORMAT_MEANS: means}, choices)
        ablated = ablated.join(eval_rows(cell.dataset).set_index("index")[["a", "b"]], on="index")
        by_prompt.append(ablated.assign(format=name, operator=OPERATOR, task=OPERATOR, donor=""))
        values = {OPERATOR: matched_by(effects[name], means.late_variance(run.first))}
        where, started = (name, OPERATOR), start(run, *prompts, center=True)
        runs = run_cell(started, ranks, where, DOSES, values, means, draws)
        dose = dose_table(started, eval_rows(cell.dataset)[["index", "a", "b"]], where, runs).assign(format=name)
        # One operator says little of the noise of rankings, whose interval would be 13 standard errors wide.
        by_prompt.append(dose[~dose["neurons"].str.startswith(HALVES)])
    plans = plan({name: cell.census for name, cell in cells.items()}, datasets, 100, seed, OPERATOR)
    moved_sets = neuron_sets(run, circuits, {}, measured, OPERATOR, draws)
    for *_, moved in transfer_tables(run, plans, averages, moved_sets, center=True):
        by_prompt.append(moved.assign(operator=OPERATOR, task=OPERATOR))
    sizes = {"k": [PLANTED], "best_k": DOSES, "specificity_k": [PLANTED]}
    contrasts = contrasts_table(Measured(pd.concat(by_prompt, ignore_index=True)), sizes, RESAMPLES, seed)
    return {
        "overlap": overlap_table(effects, ks, RESAMPLES, seed),
        "reliability": reliability_table(effects, ks, seed),
        "verdicts": pd.concat(question_rows(contrasts)),
    }


def reliability_of(within, n):
    """p, from the Jaccard of n parts of one format's prompts: of k neurons k pⁿ are in all sets."""
    if not 0 < within <= 1:
        return np.nan
    return brentq(lambda p: p**n / (1 - (1 - p) ** n + n * (1 - p)) - within, 0.0, 1.0, xtol=1e-15)


def shared_part(jaccard, n, p=1.0):
    """The share s: J = s pⁿ / (n - s (n p - 1 + (1 - p)ⁿ)); with p = 1 it is n J / (1 + (n - 1) J)."""
    return n * jaccard / (p**n + jaccard * (n * p - 1 + (1 - p) ** n))


def estimate(overlap, reliability):
    """The shared part beyond chance, with limits: those of the Jaccard and of `parts` add as squares."""
    every = "+".join(TEMPLATES)
    (row,) = overlap[(overlap["layer"] == EVERY_LAYER) & (overlap["formats"] == every)].to_dict("records")
    kinds = reliability.set_index("kind")
    across = kinds.loc["across_parts", "jaccard"]
    with np.errstate(divide="ignore"):
        middle, below, above = np.exp(np.log(kinds.loc["parts", ["jaccard", "low", "high"]]).mean())

    def part(across, within):
        p = reliability_of(within - row["chance"], len(TEMPLATES))
        return shared_part(max(0.0, across - row["chance"]), len(TEMPLATES), p)

    low, high = (row[side] / row["jaccard"] if row["jaccard"] else 1.0 for side in ("low", "high"))
    best = part(across, middle)
    down = np.hypot(best - part(across * low, middle), best - part(across, above))
    up = np.hypot(part(across * high, middle) - best, part(across, below) - best)
    return np.clip([best, best - down, 1.0 if np.isnan(up) else best + up], 0, 1)


def measured(folder, share, seed, late_failures=False, ks=KS):
    """A row for each measure of one model: value, limits, verdict, and the share that the value estimates."""
    write_model(folder, share, seed, late_failures)
    tables, rows = tables_of(folder, seed, ks), []
    overlap, reliability = tables["overlap"], tables["reliability"]
    for k in ks:
        own, again = overlap[overlap["k"] == k], reliability[reliability["k"] == k]
        every = own[(own["layer"] == -1) & (own["formats"] == "+".join(TEMPLATES))].iloc[0]
        ceiling = np.exp(np.log(again.loc[again["kind"] == "parts", "jaccard"]).mean())
        alone = shared_part(every[["jaccard", "low", "high"]].to_numpy(float), len(TEMPLATES))
        values = {"jaccard": [every["jaccard"]], "ceiling": [ceiling]}
        values |= {"uncorrected": alone, "shared part": estimate(own, again)}
        rows += [
            {"measure": name, "k": k, **dict(zip(("value", "low", "high"), some, strict=False))}
            for name, some in values.items()
        ]
    for row in overall(tables["verdicts"]).to_dict("records"):
        measure = {"measure": f"{row['question']} {row['metric']}", "k": PLANTED, "verdict": row["verdict"]}
        limits = {"low": row["low"], "high": row["high"], "of_dose": row["share"]}
        rows.append({**measure, "value": row["difference"], **limits})
    table = pd.DataFrame(rows)
    inside = (table["low"] <= share) & (share <= table["high"])
    known = table["measure"].isin(["uncorrected", "shared part"])
    return table.assign(share=share, covered=inside.where(known))


@pytest.mark.slow
def test_effects_grow_with_the_shared_part_and_exchange_tells_a_half_from_the_whole(tmp_path):
    """Transfer corrects failures that arise before the shared neurons, but not those of other late neurons."""
    half, whole, late = (
        measured(tmp_path / str(number), *given, ks=(PLANTED,)).set_index("measure")
        for number, given in enumerate([(0.5, 300), (1, 300), (1, 300, True)])
    )
    moved = "repaired rate"
    for name in ("sufficient faithfulness", "necessary faithfulness", moved, "jaccard", "shared part"):
        assert whole.loc[name, "value"] > half.loc[name, "value"] + 0.1
    assert half.loc["shared part", "value"] == pytest.approx(0.5, abs=0.05)
    for table, word in ((half, "no"), (whole, "yes")):
        exchange = table[table.index.isin(["exchange probability", "exchange probability kept"])]
        assert exchange["verdict"].tolist() == [word, word]
        assert exchange["of_dose"].between(0.4, 0.7).all()
    assert whole.loc[moved, "verdict"] == "yes"
    assert abs(late.loc[moved, "value"]) < 0.02
    assert whole.loc["jaccard", "value"] == pytest.approx(late.loc["jaccard", "value"], abs=0.1)


@pytest.mark.nightly
def test_the_table_of_power_and_coverage(tmp_path):
    models = product(SHARES, range(SEEDS))
    table = pd.concat(measured(tmp_path / f"{share}-{seed}", share, seed) for share, seed in models)
    own = table[table["k"] == PLANTED]
    own = own.assign(value=own["value"] + SERVES * own["measure"].str.match("exchange (?!.*beyond)"))
    for name in ("value", "of_dose"):
        print(own.pivot_table(index="measure", columns="share", values=name).round(2).to_string())
    words = own.dropna(subset="verdict")
    for word in ("yes", "no"):
        said = words.assign(said=words["verdict"] == word)
        print(word, said.pivot_table(index="measure", columns="share", values="said", aggfunc="sum").to_string())
    hits = table.dropna(subset="covered").groupby("measure")["covered"]
    print(hits.agg(["sum", "size"]).to_string())
    assert hits.mean()["shared part"] >= 0.95
    said = words.set_index(["measure", "share"])["verdict"].groupby(level=[0, 1]).agg(list)
    for name in ("sufficient probability", "necessary probability", "repaired rate"):
        assert said[name, 1].count("yes") == SEEDS
        assert "no" not in said[name, 0.25]
    for name in ("exchange probability", "exchange probability kept"):
        assert said[name, 1].count("yes") == said[name, 0.25].count("no") == SEEDS
        assert "yes" not in said[name, 0.5]
