"""The methods of the first stage against exact effects, on the package's models or SmolLM2 (docs/results.md)."""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from form_invariance import answer, attribution, exact_effects, load_model, make_prompts

K = 50
PACKAGED = ("embedded-shared", "embedded-separate", "embedded-unwired")


def compared(source, templates, rows, number):
    """A row for each method, template and late layer: seconds, and where the exact best are by the estimate."""
    model = load_model(source, device="cpu")
    for template in templates:
        prompts = make_prompts(model, template, rows)
        prompts = prompts[answer(model, prompts)["correct"]].drop_duplicates("answer_token").head(number)
        corrupt = prompts.iloc[[*range(1, len(prompts)), 0]]
        start = time.perf_counter()
        exact = exact_effects(model, prompts, corrupt)
        took = time.perf_counter() - start
        for method in ("attribution", "relp", "integrated_gradients"):
            start = time.perf_counter()
            both = exact.merge(attribution(model, prompts, corrupt, method))
            seconds = time.perf_counter() - start
            for _, layer in both.groupby("layer"):
                place = layer["attribution"].rank(ascending=False)[layer["effect"].nlargest(K).index]
                yield {
                    "model": source.removeprefix("embedded:"),
                    "method": method,
                    "rank correlation": layer["effect"].corr(layer["attribution"], method="spearman"),
                    "in the first 50": (place <= K).mean(),
                    "in the first 200": (place <= 200).mean(),
                    "place of the last": place.max(),
                    "seconds": seconds,
                    "seconds of exact": took,
                }


def templates_of(config, operator):
    formats = yaml.safe_load(Path(config).read_text())["formats"]
    return [one["templates"][operator] for one in formats.values()]


def main():
    if "--smollm2" in sys.argv[1:]:
        words = pd.read_csv("config/tables/plural.csv").sample(60, random_state=0)
        found = list(compared("models/smollm2-135m", templates_of("config/smollm2.yaml", "plural"), words, 12))
    else:
        a, b = np.random.default_rng(0).integers(10, 480, size=(2, 30))
        sums = pd.DataFrame({"a": a, "b": b, "answer": a + b})
        templates = templates_of("config/config.yaml", "addition")
        found = [row for name in PACKAGED for row in compared(f"embedded:{name}", templates, sums, 20)]
    print(pd.DataFrame(found).groupby(["model", "method"], sort=False).mean().round(2).to_string())


if __name__ == "__main__":
    main()
