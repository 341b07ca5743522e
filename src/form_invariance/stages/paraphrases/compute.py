"""Is the circuit of one wording that of another? Overlap of the wordings' rankings (beyond the paper).

Two wordings of one format are ranked by the same operand pairs, two formats by pairs of their own. Prompts that
are shared make rankings similar in any wording. So both are also compared by halves: each is ranked by a half of
its prompts that the other does not see. The same for a wording and itself is the ceiling.

Templates of two formats may end in different tokens, and circuits are sought at the last token. Where they do, the
two are compared once more, in wordings that end in the same token, if they have such wordings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.randomness import generator
from form_invariance.stages.groups import every_two
from form_invariance.stages.membership import Effects, Key, Membership, from_tensors, layers_in, name_of
from form_invariance.stages.overlap.compute import overlap_table
from form_invariance.stages.overlap.jaccard import between_halves, halves
from form_invariance.stages.paraphrases.table import CANONICAL, FEWEST, NO, UNKNOWN, YES
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
    cells: Mapping[Key, Effects], models: Mapping[str, str], paths: Mapping[Key, Path]
) -> tuple[dict[Key, dict[str, Wording]], dict[Key, list[str]]]:
    """The wordings of every cell by name, and the texts of the variants of those that have some.

    Args:
        cells: effects of every format, or of every (format, operator).
        models: by name, the model that each is of.
        paths: effects of the variants, of each cell that has some.

    Raises:
        UserError: a file does not belong to a cell's effects.
    """
    formats = {key: {CANONICAL: canonical(cell)} for key, cell in cells.items()}
    texts = {}
    for key, path in paths.items():
        tensors, provenance = read_tensors(path, "paraphrase_effects")
        recorded = provenance["model"], provenance["prompts"]
        name = name_of(key)
        if key not in cells or recorded != (models[name], cells[key].prompts):
            raise UserError(f"--paraphrase-effects: {path} does not belong to the effects of format {name}")
        template_token, *others = provenance["final_tokens"]
        variants = variants_from(tensors, cells[key].width, others, cells[key].membership)
        formats[key] = {CANONICAL: canonical(cells[key], template_token), **variants}
        texts[key] = provenance["variants"]
    return formats, texts


def variants_from(
    tensors: Mapping[str, np.ndarray],
    width: int,
    final_tokens: Sequence[int],
    membership: Membership,
) -> dict[str, Wording]:
    """The variants in a file of their effects, by name: the tensors of variant N have the prefix N."""
    wordings = {}
    for number, final_token in enumerate(final_tokens, 1):
        prefix, name = f"{number}.", f"variant_{number}"
        arrays = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        effects = from_tensors(arrays, width, name, membership) if layers_in(arrays) else None
        wordings[name] = Wording(arrays["right"], arrays["partners_right"], effects, final_token)
    return wordings


def by_halves(cells: Mapping[str, Effects], ks: Sequence[int], seed: int, paired: bool) -> dict[str, np.ndarray]:
    """Agreement of two rankings by halves of the prompts without a common prompt, mean over random splits.

    Args:
        cells: the two, by name.
        paired: they have the same operand pairs, in the same order, and are split alike.

    Returns:
        For every k the Jaccard of one with the other, and that of each with itself, mean of the two.
    """
    weights = {}
    for name, cell in cells.items():
        rng = generator(seed, "split-half", "variants" if paired else name)
        weights[name] = halves(cell.prompts, rng)
    jaccards = between_halves(cells, weights, ks)  # (ks, R, 2, 2)
    places = {"across_halves": [1, 0], "within_halves": [0, 1]}
    splits = np.ascontiguousarray(jaccards.transpose(1, 2, 3, 0))  # (R, 2, 2, ks)
    return {name: splits[:, [0, 1], seconds].reshape(-1, len(ks)).mean(0) for name, seconds in places.items()}


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
    return {key: float(given / whole) if whole else float("nan") for key, (given, whole) in sums.items()}


def _ranked(
    cells: Mapping[str, Effects], ks: Sequence[int], resamples: int, seed: int, paired: bool
) -> pd.DataFrame:
    """The measures of two rankings, first and second, by k and layer."""
    table = overlap_table(cells, ks, resamples, seed).drop(columns="formats")
    for name, values in by_halves(cells, ks, seed, paired).items():
        table[name] = table["k"].map(dict(zip(ks, values, strict=True))).where(table["layer"] == EVERY_LAYER)
    keys = list(zip(table["k"], table["layer"], strict=True))
    for giver, receiver in (("first", "second"), ("second", "first")):
        shares = _effect_shares(cells[giver], cells[receiver], ks)
        table[f"effect_of_{giver}"] = [shares[key] for key in keys]
    return table


def _not_ranked(cell: Effects, ks: Sequence[int]) -> pd.DataFrame:
    """The rows of two wordings in which too few prompts are right."""
    table = pd.DataFrame(product(ks, (EVERY_LAYER, *cell.candidates)), columns=["k", "layer"])
    rates = ("jaccard", "low", "high", "across_halves", "within_halves", "effect_of_first", "effect_of_second")
    counts = ("members", "positive", "intersection", "union")
    chance = table["k"].map({k: expected_jaccard((k, k), cell.width) for k in ks})
    return table.assign(chance=chance, **dict.fromkeys(counts, 0), **dict.fromkeys(rates, np.nan))


def _compared(
    wordings: Sequence[Wording], template: Effects, one_format: bool, ks: Sequence[int], resamples: int, seed: int
) -> pd.DataFrame:
    """The rows of two wordings. Those of one format are ranked by the train pairs that are right in both, those of
    two formats each by its own format's pairs that are right in it.

    Args:
        template: effects of the first one's format, for the rows of wordings that are not ranked.
    """
    right = [word.right for word in wordings]
    partners = [word.partners_right for word in wordings]
    if one_format:
        right, partners = [right[0] & right[1]] * 2, [partners[0] & partners[1]] * 2
    prompts = min(int(rows.sum()) for rows in right)
    known: dict[str, Any] = {"same_final_token": _same_token(*wordings), "asked": min(map(len, right))}
    known["right"] = prompts
    cells = {
        name: word.effects.of_prompts(rows[word.right])
        for name, word, rows in zip(("first", "second"), wordings, right, strict=True)
        if word.effects is not None
    }
    if len(cells) < 2 or (one_format and prompts < FEWEST):
        return _not_ranked(template, ks).assign(**known, prompts=0, partners_right=0)
    partners_right = min(int((rows & pairs).sum()) for rows, pairs in zip(right, partners, strict=True))
    table = _ranked(cells, ks, resamples, seed, paired=one_format)
    return table.assign(**known, prompts=prompts, partners_right=partners_right)


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
    pairs = [((name, name), names) for name, wordings in formats.items() for names in every_two(wordings)]
    for of in every_two(formats):
        pairs += [(of, names) for names in _across_formats(formats[of[0]], formats[of[1]])]
    tables = []
    for of, names in pairs:
        template = formats[of[0]][CANONICAL].effects
        assert template is not None
        both = [formats[form][name] for form, name in zip(of, names, strict=True)]
        table = _compared(both, template, of[0] == of[1], ks, resamples, seed)
        keys = dict(zip(("first_format", "second_format", "first", "second"), (*of, *names), strict=True))
        tables.append(table.assign(**keys))
    return pd.concat(tables, ignore_index=True)
