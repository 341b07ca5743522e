"""Linear probes of the answer in the residual stream, at every layer and position (paper, section 4.1).

A probe is fitted to `resid_post` of correctly answered prompts of one or several formats. Its classes are the
answers' tokens: whole numbers, digits, or the first tokens of words. Prompts are split by unordered operand pair
(of a table, by row), over operators and formats together. Positions are counted from the last token (0), so that
prompts of several lengths have the last positions in common. The probed positions are those that all prompts have,
from the first position at which an operator's prompts differ.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model.batches import by_length
from form_invariance.model.decoder import Decoder, embed, run_layers
from form_invariance.model.memory import working_bytes
from form_invariance.model.prefixes import for_each, run_beginning, shared_beginning
from form_invariance.problems.prompts import PAD, PromptTokenizer
from form_invariance.randomness import generator
from form_invariance.stages.probe import discriminant
from form_invariance.statistics import wilson
from form_invariance.tables.columns import ALL
from form_invariance.tables.progress import Progress

TEST_SHARE = 0.2
_BATCH = 128
_RESIDUAL_BYTES = 2**31
_FIT_BYTES = 2**24


def choose_prompts(
    censuses: Mapping[tuple[str, str], pd.DataFrame], prompts: int, seed: int, *, apart: bool = True
) -> pd.DataFrame:
    """Correctly answered prompts of every operator, and the split of each.

    Args:
        censuses: census tables by (format, operator).
        prompts: largest number of prompts of each operator.
        apart: divide this number, and the pairs, among the formats. If False, each format has up to this number,
            and formats may share a pair.

    Returns:
        Columns format, operator, a, b, answer_token, fields, prompt, split (test, held_out or fitted; the latter
        two are the training prompts).

    Raises:
        UserError: the model answers no uniform pair of a cell correctly.
    """
    formats = list(dict.fromkeys(name for name, _ in censuses))
    parties = len(formats) if apart else 1
    share = -(-prompts // parties)
    parts = []
    for (name, operator), census in censuses.items():
        # Formats have different pairs, so a probe over all formats sees as many pairs as a probe of one format.
        order = generator(seed, "probe", operator).permutation(len(census))
        usable = census.iloc[order[formats.index(name) % parties :: parties]]
        usable = usable[usable["correct"] & usable["uniform"]].head(share)
        if usable.empty:
            raise UserError(f"probe: the model answers no uniform census pair of {name}/{operator} right")
        parts.append(usable[["a", "b", "answer_token", "fields", "prompt"]].assign(format=name, operator=operator))
    prompt_rows = pd.concat(parts, ignore_index=True)
    low, high = np.minimum(prompt_rows["a"], prompt_rows["b"]), np.maximum(prompt_rows["a"], prompt_rows["b"])
    pair, pairs = pd.factorize(pd.MultiIndex.from_arrays([low, high]), sort=True)
    quantile = generator(seed, "probe-split").permutation(len(pairs)) / len(pairs)
    for rows in prompt_rows.groupby(["format", "operator"], sort=False).indices.values():
        # If all prompts of a cell are drawn for training, the pair with the smallest quantile is tested.
        first = pair[rows][quantile[pair[rows]].argmin()]
        quantile[first] = min(quantile[first], TEST_SHARE / 2)
    quantile = quantile[pair]
    names = np.array(["test", "held_out", "fitted"])
    limits = [TEST_SHARE, TEST_SHARE + (1 - TEST_SHARE) * TEST_SHARE]
    return prompt_rows.assign(split=names[np.searchsorted(limits, quantile, side="right")])


@torch.no_grad()
def residuals(model: Decoder, groups: Sequence[tuple[Tensor, Tensor]], positions: range, label: str) -> Tensor:
    """Residual stream after every layer at some positions, (layers, positions, prompts, d), float32.

    Args:
        groups: for prompts of one length, their rows in the result (B,), and their token ids (B, T).
        positions: positions counted from the last token.
        label: name of the work in the progress line.
    """
    layers, d = model.config.n_layers, model.config.d_model
    total = sum(len(rows) for rows, _ in groups)
    result = torch.empty(layers, len(positions), total, d, device=model.device)
    progress = Progress(total, f"prompts, {label}")
    for rows, group in groups:
        length = group.shape[1]
        columns = torch.tensor([length - 1 - position for position in positions], device=model.device)
        shared = shared_beginning(group)
        beginning, past = run_beginning(model, group[:1, :shared].to(model.device)) if shared else ([], [])
        for batch_rows, batch in zip(rows.split(_BATCH), group.split(_BATCH), strict=True):
            x, each = embed(model, batch.to(model.device))[:, shared:], for_each(past, len(batch))
            for layer in range(layers):
                x = run_layers(model, x, layer, layer + 1, past=each)
                whole = torch.cat([beginning[layer].expand(len(x), -1, -1), x], dim=1) if shared else x
                result[layer, :, batch_rows] = whole[:, columns].transpose(0, 1).float()
            progress.add(len(batch))
    return result


@dataclass
class ProbeTask:
    """One set of probes, with the prompts that train them and the sets of prompts that test them."""

    trained: str  # training formats, joined by +
    operator: str
    train: np.ndarray  # bool, (prompts,)
    tests: dict[str, np.ndarray]  # by format(s): bool, (prompts,)


def tasks(prompt_rows: pd.DataFrame) -> Iterator[ProbeTask]:
    """The probes to fit: for each format and for all together, over all operators and for each.

    Every probe is tested on each format and on all together.

    Raises:
        UserError: no prompt is left to train or to test a probe.
    """
    formats, operators = list(prompt_rows["format"].unique()), list(prompt_rows["operator"].unique())
    sets = {name: (prompt_rows["format"] == name).to_numpy() for name in formats}
    if len(formats) > 1:
        sets["+".join(formats)] = np.ones(len(prompt_rows), bool)
    test = (prompt_rows["split"] == "test").to_numpy()
    for operator in [ALL, *operators]:
        of_operator = ((prompt_rows["operator"] == operator) | (operator == ALL)).to_numpy()
        for trained, members in sets.items():
            train = members & of_operator & ~test
            tests = {name: others & of_operator & test for name, others in sets.items()}
            for use, masks in (("train on", [train]), ("test", [*tests.values()])):
                if not all(mask.any() for mask in masks):
                    of = "any operator" if operator == ALL else operator
                    raise UserError(
                        f"probe: no prompt of {of} is left to {use}; raise probe_prompts or census_pairs"
                    )
            yield ProbeTask(trained, operator, train, tests)


def _rows(task: ProbeTask, answers: np.ndarray, positions: range, accuracy: np.ndarray) -> pd.DataFrame:
    """The table rows of one set of probes; `accuracy` is from `_accuracies`, (2, test sets, layers, positions)."""
    # If several answers are most frequent, the smallest is the majority answer.
    values, counts = np.unique(answers[task.train], return_counts=True)
    most = values[counts.argmax()]
    layer, position = np.meshgrid(range(accuracy.shape[2]), positions, indexing="ij")
    parts = []
    for (tested, members), observed, shuffled in zip(task.tests.items(), *accuracy, strict=True):
        size = int(members.sum())
        low, high = wilson(observed * size, np.full_like(observed, size))
        grids = {"layer": layer, "position": position, "accuracy": observed}
        grids |= {"low": low, "high": high, "shuffled": shuffled}
        part = pd.DataFrame({name: grid.ravel() for name, grid in grids.items()})
        parts.append(
            part.assign(
                tested=tested,
                test_prompts=size,
                answers=len(np.unique(answers[task.train | members])),
                majority=float((answers[members] == most).mean()),
                reachable=float(np.isin(answers[members], values).mean()),
            )
        )
    table = pd.concat(parts)
    return table.assign(trained=task.trained, operator=task.operator, train_prompts=int(task.train.sum()))


def _accuracies(x: Tensor, labels: Tensor, shuffled: Tensor, held_out: Tensor, task: ProbeTask) -> Tensor:
    """Accuracy of a set's probes on each test set, and of probes of shuffled answers, (2, test sets, G).

    Args:
        x: residual streams of all prompts, (G, prompts, d).
        labels: answers, (prompts,).
        shuffled: the answers with those of the training prompts permuted, (prompts,).
        held_out: training prompts that choose the shrinkage, bool, (prompts,).
    """
    train = torch.from_numpy(task.train).to(x.device)
    tests = [torch.from_numpy(members).to(x.device) for members in task.tests.values()]
    fitted = x[:, train]
    shrinkage = discriminant.choose_shrinkage(fitted, labels[train], held_out[train])
    rates = []
    for targets in (labels, shuffled):
        probe, classes = discriminant.fit(fitted, targets[train], shrinkage)
        for test in tests:
            right = classes[discriminant.predict(probe, x[:, test])] == labels[test]
            rates.append(right.double().mean(1).cpu())
    return torch.stack(rates).view(2, len(tests), len(x))


def run(
    model: Decoder, tokenizer: PromptTokenizer, prompt_rows: pd.DataFrame, seed: int, *, last_only: bool = False
) -> pd.DataFrame:
    """Fit and test all probes.

    Args:
        prompt_rows: prompts, from `choose_prompts`.
        seed: seed of the shuffled answers.
        last_only: probe the last token alone, which is all that prompts of several formats have in common.

    Returns:
        The probe table without its column token.
    """
    groups = [
        (torch.from_numpy(places)[rows], tokens)
        for places in prompt_rows.groupby(["format", "operator"], sort=False).indices.values()
        for rows, tokens in by_length(
            torch.from_numpy(tokenizer.encode_batch(prompt_rows["prompt"].iloc[places].tolist())), len(places)
        )
    ]
    skip = int(tokenizer.bos is not None)
    length = 1 if last_only else _positions(groups, skip)
    # If the residual streams of all positions do not fit in memory, the model runs several times.
    size = 4 * model.config.n_layers * len(prompt_rows) * model.config.d_model
    at_once = max(1, working_bytes(model.device, _RESIDUAL_BYTES) // size)
    probe_tasks = list(tasks(prompt_rows))
    parts = []
    for start in range(0, length, at_once):
        positions = range(start, min(start + at_once, length))
        label = f"positions {positions[0]}..{positions[-1]} of {length}"
        x = residuals(model, groups, positions, label)
        for task in probe_tasks:
            if task.operator == ALL:
                parts.append(probe_rows(x, prompt_rows, positions, task, seed))
            elif start == 0:  # only the last token, where the paper reads the answer
                parts.append(probe_rows(x[:, :1], prompt_rows, positions[:1], task, seed))
    return pd.concat(parts, ignore_index=True)


def probe_rows(x: Tensor, prompt_rows: pd.DataFrame, positions: range, task: ProbeTask, seed: int) -> pd.DataFrame:
    """The rows of one set of probes of `answer_token` on residual streams x (layers, positions, prompts, d)."""
    answers = prompt_rows["answer_token"].to_numpy(copy=True)
    shuffled = answers.copy()
    rng = generator(seed, "probe-shuffle", task.trained, task.operator)
    shuffled[task.train] = rng.permutation(answers[task.train])
    labels, permuted = (torch.from_numpy(values).to(x.device) for values in (answers, shuffled))
    held_out = torch.from_numpy((prompt_rows["split"] == "held_out").to_numpy(copy=True)).to(x.device)
    flat = x.flatten(0, 1)
    prompts, width = flat.shape[1:]
    step = max(1, working_bytes(x.device, _FIT_BYTES) // (4 * width * (prompts + 4 * width)))
    pieces = [_accuracies(part, labels, permuted, held_out, task) for part in flat.split(step)]
    accuracies = torch.cat(pieces, dim=-1).unflatten(-1, x.shape[:2]).numpy()
    return _rows(task, answers, positions, accuracies)


def _positions(groups: Sequence[tuple[Tensor, Tensor]], skip: int) -> int:
    """The number of last positions to probe: all prompts have them, and prompts of a group differ at the first.

    Args:
        groups: as in `residuals`; each has prompts of one format, operator and length.
        skip: 1 if prompts begin with BOS.
    """
    beginnings = [int((tokens == tokens[:1]).all(0).long().cumprod(0).sum()) for _, tokens in groups]
    differing = max(tokens.shape[1] - same for (_, tokens), same in zip(groups, beginnings, strict=True))
    return max(1, min(differing, *(tokens.shape[1] - skip for _, tokens in groups)))


def token_labels(tokenizer: PromptTokenizer, prompt_rows: pd.DataFrame) -> list[str]:
    """A label of each position, counted from the last token, by the prompts of the first cell.

    The label is the token if all prompts have the same, else the field that contains it, or empty if none does.
    """
    cells = prompt_rows[["format", "operator"]]
    rows = prompt_rows[(cells == cells.iloc[0]).all(axis=1)]
    tokens = tokenizer.encode_batch(rows["prompt"].tolist())[:, ::-1]
    texts = {token: tokenizer.text(token) for token in np.unique(tokens).tolist() if token != PAD}
    fields = [json.loads(text) for text in rows["fields"]]
    labels = []
    for column in tokens.T[: int((tokens != PAD).sum(1).min())].tolist():
        parts = [texts[token].strip() for token in column]
        pairs = list(zip(parts, fields, strict=True))
        inside = [name for name in fields[0] if all(part and part in values[name] for part, values in pairs)]
        if len(set(column)) == 1:
            labels.append(texts[column[0]])
        else:
            labels.append(f"{{{inside[0]}}}" if inside else "")
    return labels
