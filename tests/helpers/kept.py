"""What a run makes, in seven numbers a column or kind of element, is what it made before."""

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
ROUNDING, DECISION, FEW = 2e-4, 5e-3, 3000
"""How much another processor may change a number, as a share of the column's largest value and range."""
BY_ROUNDING = re.compile(
    "shuffled|probe path stroke: #777777|contrasts.parquet (low|high|verdict|ratio|limit_error)"
    "|reliability.parquet by_probability|sha256|checksum"
)
"""What another processor changes: guesses of a probe that learnt nothing, limits of next to no damage, orders of
equal values, digests."""
BY_DECISION = re.compile(
    "(?:heuristics|probes?).parquet|maps.safetensors (?:maps|sampled)$|interventions.parquet accuracy"
    "|(?:_prompts.parquet|/transfer[^ ]*) (?:correct|recovered|donor_answer|permuted_answer|low|high)"
    "|(?:differing|format_correlation|verdicts).parquet (?:low|high|limit_error)"
)
"""What may change more, unless it is under FEW words: rounding decides labels and answers, and moves a ratio whose
divisor is next to nothing."""
COLUMNS = ["values", "unknown", "mean", "weighted mean", "least", "median", "most"]
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
    """The numbers of COLUMNS for one column; unknown values count only in the first two.

    The weights are random numbers by position, so that values in another order have another weighted mean.
    """
    every = numbers(values)
    known = np.isfinite(every)
    found, weights = every[known], np.random.default_rng(0).standard_normal(len(every))[known]
    if not len(found):
        return len(every), len(every), 0, 0, 0, 0, 0
    means = found.mean(), (weights * found).mean()
    return len(every), len(every) - len(found), *means, found.min(), np.median(found), found.max()


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


def check(name: str, rows: dict[str, Iterable], share: float = ROUNDING) -> None:
    """Every column is as kept, up to another processor's rounding; KEEP=1 keeps a change."""
    rows = {name: values for name, values in rows.items() if len(values) and not BY_ROUNDING.search(name)}
    path = FOLDER / f"{name}.csv"
    found = pd.DataFrame(map(measured, rows.values()), index=rows, columns=COLUMNS)
    kept = pd.read_csv(path, index_col=0)
    every = found.index.union(kept.index)
    now, before = found.reindex(every), kept.reindex(every)
    size = before[["least", "most"]].abs().max(axis=1) + before["most"] - before["least"]
    few_words = every.str.endswith(WORDS) & (before["values"] < FEW)
    shares = np.where(every.str.contains(BY_DECISION) & ~few_words, DECISION, share)[:, None]
    limits = shares * np.column_stack([before["values"]] * 2 + [size] * 5) + 1e-5
    same = ((now - before).abs() <= limits).all(axis=1)
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
    numbers = [(what, f"{one:.6g}", f"{other:.6g}") for what, one, other in zip(COLUMNS, now, kept, strict=True)]
    return f"{name}: " + "; ".join(f"{what} {one}, kept {other}" for what, one, other in numbers if one != other)
