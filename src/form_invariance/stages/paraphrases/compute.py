"""Is the circuit of one wording that of another? Overlap of the wordings' rankings (beyond the paper).

Two wordings of one format are ranked by the same operand pairs, two formats by pairs of their own. Prompts that
are shared make rankings similar in any wording. So both are also compared by halves: each is ranked by a half of
its prompts that the other does not see. The same for a wording and itself is the ceiling.

Templates of two formats may end in different tokens, and circuits are sought at the last token. Where they do, the
two are compared once more, in wordings that end in the same token, if they have such wordings.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.stages.overlap.compute import overlap_table, pooled_jaccards, random_halves
from form_invariance.stages.paraphrases.table import CANONICAL, FEWEST, NO, UNKNOWN, YES
from form_invariance.stages.patching.effects import Effects, Membership, from_tensors, layers_in
from form_invariance.statistics import expected_jaccard
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.files import read_tensors


@dataclass(frozen=True)
class Wording:
    """One wording of a cell's train pairs.

    Attributes:
        right: train pairs that the model answers right, bool, (P,).
        partners_right: train pairs whose corrupt partner it answers right, bool, (P,).
        effects: of the right ones, in order; None where they are too few.
        final_token: id of the prompts' last token; None where it is not known.
    """

    right: np.ndarray
    partners_right: np.ndarray
    effects: Effects | None
    final_token: int | None = None


def canonical(effects: Effects, final_token: int | None = None) -> Wording:
    """A cell's template, whose train pairs and their partners are all right, by its first draw of partners.

    Variants are patched with that draw alone.
    """
    effects = replace(effects, effects={layer: values[:1] for layer, values in effects.effects.items()})
    every = np.ones(effects.prompts, dtype=bool)
    return Wording(every, every, effects, final_token)


def read_wordings(
    cells: Mapping[str, Effects], models: Mapping[str, str], paths: Mapping[str, Path]
) -> tuple[dict[str, dict[str, Wording]], dict[str, list[str]]]:
    """The wordings of every format by name, and the texts of the variants of those that have some.

    Args:
        cells: effects of every format.
        models: the model that each is of.
        paths: effects of the variants, of each format that has some.

    Raises:
        UserError: a file does not belong to a format's effects.
    """
    formats = {name: {CANONICAL: canonical(cell)} for name, cell in cells.items()}
    texts = {}
    for name, path in paths.items():
        tensors, provenance = read_tensors(path, "paraphrase_effects")
        found = provenance["model"], provenance["prompts"]
        if name not in cells or found != (models[name], cells[name].prompts):
            raise UserError(f"--paraphrase-effects: {path} does not belong to the effects of format {name}")
        own, *others = provenance["final_tokens"]
        variants = variants_from(tensors, cells[name].width, others, cells[name].membership)
        formats[name] = {CANONICAL: canonical(cells[name], own), **variants}
        texts[name] = provenance["variants"]
    return formats, texts


def variants_from(
    tensors: Mapping[str, np.ndarray],
    width: int,
    final_tokens: Sequence[int],
    membership: Membership,
) -> dict[str, Wording]:
    """The variants in a file of their effects, by name: the tensors of variant N have the prefix N."""
    found = {}
    for number, final_token in enumerate(final_tokens, 1):
        prefix, name = f"{number}.", f"variant_{number}"
        own = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        effects = from_tensors(own, width, name, membership) if layers_in(own) else None
        found[name] = Wording(own["right"], own["partners_right"], effects, final_token)
    return found


def _jaccards(one: Effects, other: Effects, ks: Sequence[int]) -> np.ndarray:
    """Pooled Jaccard of two rankings for every k, (len(ks),)."""
    return pooled_jaccards([one.ranks, other.ranks], one.candidates, ks)


def by_halves(
    one: Effects, other: Effects, ks: Sequence[int], seed: int, paired: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Agreement of rankings by disjoint halves of the prompts, mean over random splits.

    Args:
        paired: the two have the same operand pairs, in the same order, and are split alike.

    Returns:
        For every k the Jaccard of one with the other, and that of each with itself, mean of the two.
    """
    names = ("variants", "variants") if paired else ("first", "second")
    across, within = [], []
    splits = [random_halves(cell.prompts, seed, name) for cell, name in zip((one, other), names, strict=True)]
    for first, second in zip(*splits, strict=True):
        (a, b), (c, d) = ([one.of_prompts(half) for half in first], [other.of_prompts(half) for half in second])
        across += [_jaccards(a, d, ks), _jaccards(b, c, ks)]
        within += [_jaccards(a, b, ks), _jaccards(c, d, ks)]
    return np.mean(across, axis=0), np.mean(within, axis=0)


def _effect_shares(giver: Effects, receiver: Effects, ks: Sequence[int]) -> dict[tuple[int, int], float]:
    """Mean effect in the receiver of the giver's top-k, over that of the receiver's own, by (k, layer)."""
    sums: dict[tuple[int, int], np.ndarray] = {}
    for layer in receiver.candidates:
        means = receiver.means(layer)
        placed = [cell.ranks(layer) for cell in (giver, receiver)]
        for k in ks:
            sums[k, layer] = np.array([means[ranks < k].sum() for ranks in placed])
            sums[k, EVERY_LAYER] = sums.get((k, EVERY_LAYER), 0) + sums[k, layer]
    # Where the receiver's own set is empty, there is no effect to take a share of.
    return {key: float(given / own) if own else float("nan") for key, (given, own) in sums.items()}


def _compared(
    one: Effects, other: Effects, ks: Sequence[int], resamples: int, seed: int, paired: bool
) -> pd.DataFrame:
    """The measures of two rankings, by k and layer."""
    table = overlap_table({"first": one, "second": other}, ks, resamples, seed).drop(columns="formats")
    across, within = by_halves(one, other, ks, seed, paired)
    for name, values in (("across_halves", across), ("within_halves", within)):
        table[name] = table["k"].map(dict(zip(ks, values, strict=True))).where(table["layer"] == EVERY_LAYER)
    keys = list(zip(table["k"], table["layer"], strict=True))
    for name, giver, receiver in (("effect_of_first", one, other), ("effect_of_second", other, one)):
        shares = _effect_shares(giver, receiver, ks)
        table[name] = [shares[key] for key in keys]
    return table


def _not_compared(cell: Effects, ks: Sequence[int]) -> pd.DataFrame:
    """The rows of two wordings in which too few prompts are right."""
    table = pd.DataFrame(product(ks, (EVERY_LAYER, *cell.candidates)), columns=["k", "layer"])
    rates = ("jaccard", "low", "high", "across_halves", "within_halves", "effect_of_first", "effect_of_second")
    counts = ("members", "positive", "intersection", "union")
    chance = table["k"].map({k: expected_jaccard((k, k), cell.width) for k in ks})
    return table.assign(chance=chance, **dict.fromkeys(counts, 0), **dict.fromkeys(rates, np.nan))


def _wordings(
    wordings: Mapping[str, Wording], ks: Sequence[int], resamples: int, seed: int
) -> Iterator[pd.DataFrame]:
    """Every two wordings of one format, ranked by the train pairs that are right in both."""
    whole = wordings[CANONICAL].effects
    assert whole is not None
    for (name, one), (other_name, other) in combinations(wordings.items(), 2):
        both = one.right & other.right
        prompts, partners = int(both.sum()), int((both & one.partners_right & other.partners_right).sum())
        if prompts >= FEWEST and one.effects is not None and other.effects is not None:
            first, second = one.effects.of_prompts(both[one.right]), other.effects.of_prompts(both[other.right])
            table = _compared(first, second, ks, resamples, seed, paired=True)
            table = table.assign(prompts=prompts, partners_right=partners)
        else:
            table = _not_compared(whole, ks).assign(prompts=0, partners_right=0)
        same = _same_token(one, other)
        yield table.assign(first=name, second=other_name, same_final_token=same, asked=len(both), right=prompts)


def _same_token(one: Wording, other: Wording) -> str:
    if one.final_token is None or other.final_token is None:
        return UNKNOWN
    return YES if one.final_token == other.final_token else NO


def _across_formats(one: Mapping[str, Wording], other: Mapping[str, Wording]) -> list[tuple[str, str]]:
    """Which wordings of two formats are compared: their templates, and where these end in different tokens, the
    first wordings that end in the same one and are ranked; rather a template and a variant than two variants."""
    compared = [(CANONICAL, CANONICAL)]
    if _same_token(one[CANONICAL], other[CANONICAL]) == NO:
        alike = [
            ((a > 0) + (b > 0), a + b, (first, second))
            for (a, first), (b, second) in product(enumerate(one), enumerate(other))
            if _same_token(one[first], other[second]) == YES and one[first].effects and other[second].effects
        ]
        compared += [names for *_, names in sorted(alike, key=lambda pair: pair[:2])[:1]]
    return compared


def _two_formats(one: Wording, other: Wording, ks: Sequence[int], resamples: int, seed: int) -> pd.DataFrame:
    """Two wordings of two formats, each ranked by the train pairs of its own format that are right in it."""
    assert one.effects is not None
    assert other.effects is not None
    table = _compared(one.effects, other.effects, ks, resamples, seed, paired=False)
    return table.assign(
        same_final_token=_same_token(one, other),
        asked=min(len(one.right), len(other.right)),
        right=min(one.right.sum(), other.right.sum()),
        prompts=min(one.effects.prompts, other.effects.prompts),
        partners_right=min((one.right & one.partners_right).sum(), (other.right & other.partners_right).sum()),
    )


def paraphrases_table(
    formats: Mapping[str, Mapping[str, Wording]], ks: Sequence[int], resamples: int, seed: int
) -> pd.DataFrame:
    """Overlap of every two wordings of a format, and of every two formats.

    Args:
        formats: the wordings of every format by name, each with a canonical one.
        ks: circuit sizes.
        resamples: bootstrap resamples over the prompts, for the intervals.

    Returns:
        The paraphrases table.
    """
    tables = []
    for name, wordings in formats.items():
        for table in _wordings(wordings, ks, resamples, seed):
            tables.append(table.assign(first_format=name, second_format=name))
    for (name, own), (other_name, others) in combinations(formats.items(), 2):
        for first, second in _across_formats(own, others):
            table = _two_formats(own[first], others[second], ks, resamples, seed)
            tables.append(table.assign(first_format=name, second_format=other_name, first=first, second=second))
    return pd.concat(tables, ignore_index=True)
