"""Draw the documents' pictures of pretrained models.

They show results/qwen (`make demo-sizes`) and results/smollm2 (`make demo-real`), or the folders of two arguments.
"""

import shutil
import sys
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.beyond.dose.figure import LOOKS as LOSSES
from form_invariance.beyond.dose.figure import LOST, over_cells
from form_invariance.beyond.residual_exchange.figure import LOOKS, SURVIVING
from form_invariance.beyond.residual_exchange.table import COPIED, MLP, OTHERS, OWN
from form_invariance.drawing.lines import DASHED, Look, line, line_grid, spread
from form_invariance.drawing.style import COLOURS, save
from form_invariance.experiment.contrasts.entries import OWN_LOSS
from form_invariance.experiment.intervention_kinds import KNOCKOUT

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs/figures"
FOLDERS = [ROOT / "results/qwen", ROOT / "results/smollm2"]
RESULTS, OF_WORDS = map(Path, sys.argv[1:] or FOLDERS)
MODELS, WORDS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"), "smollm2-135m"
COPIES = ("tasks", "differing")
"""Figures of the first model that are copied."""
PANEL = ["model", "layer"]


def tables(name: str) -> pd.DataFrame:
    """A table of both models from all files of this name. The models' names get their number of layers."""
    paths = [path for model in MODELS for path in sorted(RESULTS.glob(f"{model}/shared/**/{name}.parquet"))]
    table = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
    layers = table.groupby("model")["layer"].transform("max") + 1
    return table.assign(model=table["model"] + ", " + layers.astype(str) + " layers")


def exchange() -> Figure:
    """Shares of outputs that are the donor's answer: means over operators, and their range."""
    table = tables("residual_shares")
    donors = {donor: table[table["donor"] == donor] for donor in (OWN, OTHERS, COPIED)}
    lines = [spread(rows, PANEL, donor, "donor_answer") for donor, rows in donors.items()]
    lines.append(spread(donors[OTHERS], PANEL, SURVIVING, "own_answer"))
    prompts = donors[OWN][donors[OWN]["layer"] == 0].groupby("model")["prompts"].sum()
    title = f"The last token's state is replaced by a donor's after one layer ({prompts.min()} prompts per model)"
    return line_grid(pd.concat(lines), "layer", LOOKS, title, ylabel="share of outputs", col="model").figure


def probes() -> Figure:
    """What probes trained on one format read of the units in another: means over formats, range over operators."""
    table = tables("arrival_probes")
    table = table[(table["trained"] != table["tested"]) & table["operator"].str.endswith("units")]
    table = table[table["target"].str.endswith(" 1")]
    names = {
        "answer": "result, units digit",
        "a": "first operand, units digit",
        "b": "second operand, units digit",
    }
    table = table.assign(
        layer=table["layer"] + 0.5 * (table["point"] == MLP),
        line=table["target"].str.split().str[0].map(names),
    )
    means = table.groupby(["operator", "line", *PANEL])["accuracy"].mean().reset_index()
    lines = [spread(means[means["line"] == name], PANEL, name, "accuracy") for name in names.values()]
    colours = (Look("black", "o", width=1.8), Look(COLOURS[0]), Look(COLOURS[1], dashes=DASHED))
    looks = dict(zip(names.values(), colours, strict=True))
    tested = table.groupby(["model", "operator", "tested"])["test_prompts"].first().groupby("model").sum()
    title = f"Probes tested in another format than trained; x.5: after the MLP ({tested.min()} test prompts)"
    return line_grid(pd.concat(lines), "layer", looks, title, ylabel="accuracy", col="model").figure


def dose() -> Figure:
    """Probability lost by knockout of the best neurons at the last token, by size."""
    lines = []
    for folder in (*(RESULTS / model for model in MODELS), OF_WORDS / WORDS):
        rows = over_cells(pd.read_parquet(folder / "shared/contrasts.parquet"))
        rows = rows[(rows["intervention"] == KNOCKOUT) & rows["contrast"].isin(LOSSES)]
        own = rows[rows["contrast"] == OWN_LOSS]
        name = f"{folder.name}\nn = {own['prompts'].max()} in {own['cells'].max()} cells"
        lines.append(line(rows.assign(model=name), rows["contrast"], "first", "low", "high"))
    title = (
        "The k best neurons of each late layer, at the last token; digits (qwen) and word forms (smollm2)\n"
        "n: right answers; bands: 95 % intervals over problems"
    )
    return line_grid(pd.concat(lines), "k", LOSSES, title, ylabel=LOST, col="model").figure


if __name__ == "__main__":
    for name, draw in (("qwen_residual_exchange", exchange), ("qwen_arrival_probes", probes), ("dose", dose)):
        save(draw(), [PICTURES / f"{name}.png"])
    for name in COPIES:
        shutil.copy(RESULTS / "figures" / MODELS[0] / f"{name}.png", PICTURES / f"qwen_{name}.png")
