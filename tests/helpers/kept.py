"""What a run makes, in five numbers a column or kind of element, is what it made before."""

import json
import os
import re
import warnings
import zlib
from collections import defaultdict
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from form_invariance import __version__
from form_invariance.tables.files import provenance_of

FOLDER = Path(__file__).parents[1] / "data/kept"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ROUNDING, FEW = 1e-5, 3000
BY_ROUNDING = re.compile(
    "shuffled|probe path stroke: #777777|contrasts.parquet (low|high|verdict|ratio|limit_error)|sha256|checksum"
)
"""What another processor changes: guesses of a probe that learnt nothing, limits of next to no damage, digests."""
COLUMNS = ["values", "unknown", "mean", "slope", "size"]
SHAPES = ("d", "x", "y", "transform", "width", "height", "points")
WORDS = " (words)"
VALUES = ("td", "th", "text", "option")
"""Elements whose words are values; what other elements say may be said in other words."""


def numbers(values) -> np.ndarray:
    """Values as numbers; a word is a number by its checksum."""
    flat = np.ravel(np.asarray(values))
    if flat.dtype.kind not in "biuf":
        flat = [np.nan if pd.isna(value) else zlib.crc32(str(value).encode()) / 2**32 for value in flat]
    return np.asarray(flat, float)


def measured(values) -> tuple[float, ...]:
    """How many values, how many of them unknown; of the others the mean, the slope in their order, the size.

    Large ones count by their logarithm, so that none outweighs the others.
    """
    every = numbers(values)
    known = np.arcsinh(every[np.isfinite(every)])
    order = np.linspace(-1, 1, len(known))
    means = (np.mean(one) if len(known) else 0.0 for one in (known, known * order, np.abs(known)))
    return len(every), len(every) - len(known), *means


class _Elements(HTMLParser):
    """The numbers of a page or a picture by kind of element, and the words of elements that hold values."""

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
        if self.tag in VALUES:
            self.found[f"{self.kind}{WORDS}"] += NUMBER.sub("", text).split()


def columns_of(path: Path):
    """The values of a file by column, by tensor or by kind of element; nothing where it is of another kind."""
    if path.suffix == ".parquet":
        return {name + WORDS * (one.dtype.kind not in "biuf"): one for name, one in pd.read_parquet(path).items()}
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix in (".html", ".md", ".tex"):
        return of_markup(path.read_text())
    return {}


def of_markup(text: str) -> dict[str, list]:
    return _Elements(text.replace(__version__, "")).found


def of_files(folder: Path) -> dict[str, Iterable]:
    """The values of every table, tensor and page below a folder, and the provenance of tables and tensors."""
    rows = {}
    for path in sorted(folder.rglob("*.*")):
        name = path.relative_to(folder)
        rows |= {f"{name} {column}": values for column, values in columns_of(path).items()}
        if path.suffix in (".parquet", ".safetensors"):
            given = {
                key: value
                for key, value in provenance_of(path).items()
                if key not in ("version", "recall_of_attribution", "lineage", "content")
            }
            rows[f"{name} provenance{WORDS}"] = json.dumps(given, sort_keys=True).split()
    return rows


def check(name: str, rows: dict[str, Iterable], share: float = 0.01) -> None:
    """Columns of under FEW words are as kept, others up to another processor's rounding; KEEP=1 keeps a change."""
    rows = {name: values for name, values in rows.items() if len(values) and not BY_ROUNDING.search(name)}
    path = FOLDER / f"{name}.csv"
    found = pd.DataFrame(map(measured, rows.values()), index=rows, columns=COLUMNS)
    kept = pd.read_csv(path, index_col=0)
    every = found.index.union(kept.index)
    now, before = found.reindex(every), kept.reindex(every)
    exact = every.str.endswith(WORDS) & (before["values"] < FEW)
    shares = np.where(exact, 0, share)[:, None]
    limits = shares * before[["values", "values", "size", "size", "size"]] + ROUNDING
    same = ((now - before).abs() <= limits.to_numpy()).all(axis=1)
    changes = list(map(_change, every[~same], now[~same].to_numpy(), before[~same].to_numpy()))
    if os.environ.get("KEEP"):
        order = kept.index.intersection(found.index, sort=False).union(found.index, sort=False)
        now.where(~same, before, axis=0).loc[order].to_csv(path, float_format="%.6g")
        warnings.warn("\n".join([f"{path.name}: {len(changes)} changes are kept", *changes]), stacklevel=2)
        return
    assert not changes, "\n".join([*changes, "If this is meant: KEEP=1 pytest, and say why in the commit."])


def _change(name: str, now: np.ndarray, kept: np.ndarray) -> str:
    """What differs of a column: "code/addition/interventions.parquet probability: mean 0.61, kept 0.58"."""
    if np.isnan(kept).all() or np.isnan(now).all():
        return f"{name}: {'new' if np.isnan(kept).all() else 'gone'}"
    pairs = zip(COLUMNS, now, kept, strict=True)
    return f"{name}: " + "; ".join(
        f"{what} {one:.6g}, kept {other:.6g}" for what, one, other in pairs if one != other
    )
