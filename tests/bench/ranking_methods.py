"""The methods of the first stage against exact effects, on the package's models or SmolLM2 (docs/results.md)."""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from form_invariance import answer, attribution, exact_effects, load_model, make_prompts
from form_invariance.drawing import style
from form_invariance.stages.attribution.compute import ESTIMATES
from form_invariance.stages.audit.compute import audit_cell
from form_invariance.stages.audit.figure import audit

K = [10, 50, 200]
PACKAGED = ("embedded-shared", "embedded-separate", "embedded-unwired")


def within_layer(table, column):
    return table.groupby("layer")[column].rank(ascending=False, method="first").astype(int)


def audited(exact, estimates):
    """The audit of estimated effects, by method, against exact ones."""
    ranking = exact.assign(ie_mean=exact["effect"], rank=within_layer(exact, "effect"))
    scored = {
        method: table.assign(score=table["attribution"], rank=within_layer(table, "attribution"))
        for method, table in estimates.items()
    }
    return audit_cell(ranking, scored, exact["neuron"].nunique(), K)


def compared(source, templates, rows, number):
    """The audit of each template, with the seconds of each method."""
    model = load_model(source, device="cpu")
    for template in templates:
        prompts = make_prompts(model, template, rows)
        prompts = prompts[answer(model, prompts)["correct"]].drop_duplicates("answer_token").head(number)
        corrupt = prompts.iloc[[*range(1, len(prompts)), 0]]
        start = time.perf_counter()
        exact = exact_effects(model, prompts, corrupt)
        took = time.perf_counter() - start
        estimates, seconds = {}, {}
        for method in ESTIMATES:
            start = time.perf_counter()
            estimates[method] = attribution(model, prompts, corrupt, method)
            seconds[method] = time.perf_counter() - start
        table = audited(exact, estimates)
        yield table.assign(seconds=table["method"].map(seconds), exact=took)


def told(table):
    """Means over templates: rank correlation, recall of the exact best 50 by candidates, candidates for 99 %."""
    whole = table[(table["layer"] == -1) & (table["k"] == 50)]
    recall = whole.pivot_table(index=["model", "method"], columns="candidates", values="recall", sort=False)
    others = whole.groupby(["model", "method"], sort=False)[
        ["rank_correlation", "enough", "seconds", "exact"]
    ].mean()
    return others.join(recall.iloc[:, 1:6]).round(2)


def templates_of(config, operator):
    formats = yaml.safe_load(Path(config).read_text())["formats"]
    return [one["templates"][operator] for one in formats.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smollm2", action="store_true", help="on models/smollm2-135m")
    parser.add_argument("--figure", type=Path, help="draw one of the first model")
    arguments = parser.parse_args()
    if arguments.smollm2:
        words = pd.read_csv("config/tables/plural.csv").sample(60, random_state=0)
        runs = {"smollm2-135m": ("models/smollm2-135m", templates_of("config/smollm2.yaml", "plural"), words, 12)}
    else:
        a, b = np.random.default_rng(0).integers(10, 480, size=(2, 30))
        sums = pd.DataFrame({"a": a, "b": b, "answer": a + b})
        templates = templates_of("config/config.yaml", "addition")
        runs = {name: (f"embedded:{name}", templates, sums, 20) for name in PACKAGED}
    for number, (name, run) in enumerate(runs.items()):
        table = pd.concat(compared(*run)).assign(model=name)
        print(told(table).to_string())
        if arguments.figure and not number:
            style.save(audit({"audit": table}, name), [arguments.figure])


if __name__ == "__main__":
    main()
