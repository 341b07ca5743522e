"""Figures from made-up tables: they are drawn, whatever the number of formats, and drawn the same twice."""

import itertools

import numpy as np
import pandas as pd
import pytest

from form_invariance.errors import UserError
from form_invariance.figures import dose, interventions, jaccard, prompts, style, summary, transfer, variants


def overlap(formats, ks=(10, 50)):
    rows = []
    for size in {2, len(formats)}:
        for group in itertools.combinations(formats, size):
            for k in ks:
                for layer in (-1, 3):
                    rows.append((k, layer, "+".join(group), 3, 9, 1 / 3, 0.01, 0.3, 0.4))
    names = ["k", "layer", "formats", "intersection", "union", "jaccard", "chance", "low", "high"]
    return pd.DataFrame(rows, columns=names)


def reliability(formats, ks=(10, 50)):
    rows = [(k, f, kind, 0.8, 0.7, 0.9) for k in ks for f in formats for kind in ("split_half", "median")]
    return pd.DataFrame(rows, columns=["k", "format", "kind", "jaccard", "low", "high"])


def intervention_table(ks=(10, 50)):
    rows = []
    for kind, place in itertools.product(("keep_only", "knockout"), ("all", "last")):
        for neurons, draws in (("circuit", [-1]), ("random", [0, 1]), ("random_effect", [0])):
            for k, seed in itertools.product(ks[:1] if neurons == "random_effect" else ks, draws):
                rows.append((kind, place, neurons, k, seed, 0.5 + 0.1 * seed, 0.4, 0.6))
    names = ["intervention", "positions", "neurons", "k", "seed", "faithfulness_ratio", "ratio_low", "ratio_high"]
    return pd.DataFrame(rows, columns=names)


def transfer_table(pairs=20, ks=(10, 50)):
    value = 0.5 if pairs else np.nan
    rows = [(k, c, pairs, value, value, value) for k in ks for c in ("matched", "mismatched", "random")]
    return pd.DataFrame(rows, columns=["k", "condition", "pairs", "recovered", "low", "high"])


def dose_table(formats, pairs):
    rows = [
        (donor, target, kind, float(dose), pairs, dose / 4 if pairs else np.nan)
        for donor, target in itertools.permutations(formats, 2)
        for kind in ("strength", "neurons", "neurons_random")
        for dose in (0, 0.5, 1)
    ]
    return pd.DataFrame(rows, columns=["donor", "target", "kind", "dose", "pairs", "recovered"])


def variants_table(formats, prompts):
    pairs = [(name, "canonical", name, f"variant_{n + 1}", prompts * n) for name in formats for n in (0, 1)]
    pairs += [(one, "canonical", other, "canonical", 90) for one, other in itertools.combinations(formats, 2)]
    rows = [
        (*pair, k, -1, *((0.6, 0.5, 0.55) if pair[-1] else (np.nan,) * 3), 0.1) for pair in pairs for k in (10, 50)
    ]
    names = ["first_format", "first", "second_format", "second", "prompts", "k", "layer", "jaccard"]
    return pd.DataFrame(rows, columns=[*names, "across_halves", "within_halves", "chance"])


def all_figures(formats, operators, models):
    directions = [f"{a}_to_{b}" for a, b in itertools.permutations(formats, 2)]
    pairs = itertools.cycle((20, 0))
    transfers = {(o, d): transfer_table(next(pairs)) for o in operators for d in directions}
    cells = {(f, o): intervention_table() for f in formats for o in operators}
    yield jaccard.draw({o: overlap(formats) for o in operators}, {o: reliability(formats) for o in operators}, "m")
    yield interventions.draw(cells, "knockout", "m")
    yield transfer.draw(transfers, "m")
    yield variants.draw({o: variants_table(formats, 30 * n) for n, o in enumerate(operators)}, "m")
    yield dose.draw({o: dose_table(formats, n) for n, o in enumerate(operators)}, "m")
    yield summary.draw(
        {(m, o): overlap(formats) for m in models for o in operators},
        {(m, o): reliability(formats) for m in models for o in operators},
        {(m, *key): table for m in models for key, table in cells.items()},
        {(m, *key): table for m in models for key, table in transfers.items()},
    )
    yield prompts.draw([(f, o, ["226", " +", " ", "\n"] * 12, "294") for f in formats for o in operators])


@pytest.mark.parametrize(
    ("formats", "operators", "models"),
    [("sc", ["addition"], ["m"]), ("scw", ["addition", "division"], ["m", "n"]), ("scwx", ["addition"], ["m"])],
)
def test_figures_of_any_size_are_the_same_twice(tmp_path, formats, operators, models):
    written = []
    for time in ("one", "two"):
        for number, figure in enumerate(all_figures(formats, operators, models)):
            paths = [tmp_path / time / f"{number}.{kind}" for kind in ("png", "svg")]
            style.save(figure, paths)
            written += [path.read_bytes() for path in paths]
    half = len(written) // 2
    assert written[:half] == written[half:]
    assert all(len(content) > 2000 for content in written)


def test_tokens_show_spaces_and_line_breaks():
    assert prompts.visible(" a\n") == "␣a↵"


def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path):
    figure, _ = style.panels(1, 1)
    with pytest.raises(UserError, match="must end in"):
        style.save(figure, [tmp_path / "x.png", tmp_path / "x.bmp"])
    assert not list(tmp_path.iterdir())
