"""What a run makes, in five numbers a column or kind of element, is what it made before."""

import os
import re
import zlib
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from form_invariance import __version__

FOLDER = Path(__file__).parents[1] / "data/kept"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ROUNDING = 1e-5
BY_ROUNDING = ("attribution_rank", "spearman", "shuffled", "control", "sha256", "checksum")
"""Columns that another processor changes: orders of equals, shares of noise, digests of weights."""
COLUMNS = ("values", "unknown", "mean", "slope", "size")
SHAPES = ("d", "x", "y", "transform", "width", "height", "points")
WORDS = ("td", "th", "text", "option")
"""Elements whose words are values; what other elements say may be said in other words."""


def numbers(values) -> np.ndarray:
    """Values as numbers; a word is a number by its checksum."""
    flat = np.ravel(np.asarray(values))
    if flat.dtype.kind not in "biuf":
        flat = [np.nan if pd.isna(value) else zlib.crc32(str(value).encode()) / 2**32 for value in flat]
    return np.asarray(flat, float)


def measured(values) -> tuple[float, ...]:
    """How many values, how many of them unknown; of the others the mean, the slope in their order, the size."""
    every = numbers(values)
    known = every[np.isfinite(every)]
    order = np.linspace(-1, 1, len(known))
    means = (np.mean(one) if len(known) else 0.0 for one in (known, known * order, np.abs(known)))
    return len(every), len(every) - len(known), *means


class _Elements(HTMLParser):
    """The numbers of a page or a picture, and its values in words, by kind of element."""

    def __init__(self, text: str):
        super().__init__()
        self.found, self.tag, self.kind = defaultdict(list), "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        colour = re.search(r"(?:fill|stroke): #\w+", given.get("style", ""))
        self.tag, self.kind = tag, " ".join(filter(None, (tag, given.get("class"), colour and colour[0])))
        drawn = " ".join(given[name] for name in SHAPES if name in given)
        self.found[self.kind] += map(float, NUMBER.findall(drawn))

    def handle_data(self, data):
        text = data.replace("−", "-")
        self.found[self.kind] += map(float, NUMBER.findall(text))
        if self.tag in WORDS:
            self.found[self.kind] += numbers(NUMBER.sub("", text).split()).tolist()


def of_markup(name: str, text: str) -> dict[str, tuple[float, ...]]:
    found = _Elements(text.replace(__version__, "")).found
    return {f"{name} {kind}": measured(values) for kind, values in found.items() if values}


def of_files(folder: Path) -> dict[str, tuple[float, ...]]:
    """Every table, tensor and page below a folder."""
    rows = {}
    for path in sorted(folder.rglob("*.*")):
        name = path.relative_to(folder)
        if path.suffix in (".parquet", ".safetensors"):
            columns = pd.read_parquet(path) if path.suffix == ".parquet" else load_file(path)
            rows |= {
                f"{name} {column}": measured(values)
                for column, values in columns.items()
                if column not in BY_ROUNDING
            }
        elif path.suffix in (".html", ".md", ".tex", ".json"):
            rows |= of_markup(str(name), path.read_text())
    return rows


def check(name: str, rows: dict[str, tuple[float, ...]], share: float = 0.01) -> None:
    """Every row is the kept one, up to a share that rounding on another processor may change; KEEP=1 keeps it."""
    path, found = FOLDER / f"{name}.csv", pd.DataFrame.from_dict(rows, orient="index", columns=[*COLUMNS])
    if os.environ.get("KEEP"):
        found.to_csv(path, float_format="%.6g")
    kept = pd.read_csv(path, index_col=0)
    every = found.index.union(kept.index)
    now, before = found.reindex(every), kept.reindex(every)
    sizes = before[["values", "values", "size", "size", "size"]].to_numpy()
    same = ((now - before).abs() <= share * sizes + ROUNDING).all(axis=1)
    changed = pd.concat({"now": now[~same], "before": before[~same]}, axis=1)
    assert changed.empty, f"{changed.to_string()}\nIf this is meant: KEEP=1 pytest, and say why in the commit."
