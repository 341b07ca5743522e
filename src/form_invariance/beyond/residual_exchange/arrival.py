"""What arrives at the last token: the answer, or the operands from which later layers compute it.

Linear probes read the last token's residual stream after the attention and after the MLP of every layer. Their
targets are the digit of the answer that is asked (of a whole number, the last one), all digits of both operands,
and the carry or borrow into the asked digit (into the tens, if the last one is asked). They are trained on one
format, and tested on other problems of each format.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.beyond.residual_exchange.compute import of_prompts
from form_invariance.beyond.residual_exchange.table import ANSWER, ARRIVAL_PROBES, ATTENTION, CARRY, MLP
from form_invariance.experiment.run import Run
from form_invariance.model.decoder import Decoder, after_attention
from form_invariance.model.memory import working_bytes
from form_invariance.model.replay import LastTokenCache, attend
from form_invariance.problems.tasks import UNKNOWN, WHOLE, carries
from form_invariance.stages.probe.compute import choose_prompts, probe_rows, tasks
from form_invariance.tables.columns import ALL

_STATE_BYTES = 2**31


def _points(model: Decoder, cache: LastTokenCache, layers: range) -> Tensor:
    """The last token's residual stream after attention and after the MLP, (layers, 2, B, d), float32."""
    states = []
    for index in range(len(layers)):
        x = cache.residual[index][:, None]
        after = after_attention(model, layers[index], x, attend(model, layers[index], x, cache))
        states.append(torch.stack([after[:, 0], cache.residual[index + 1]]))
    return torch.stack(states).float()


@torch.no_grad()
def states(run: Run, prompts: Sequence[str], layers: range) -> Tensor:
    """The last token's residual stream after attention and after the MLP, (layers, 2, P, d), float32."""
    return of_prompts(run, prompts, layers.start, partial(_points, run.model, layers=layers), dim=2)


def targets(problems: pd.DataFrame, expression: str) -> Iterator[tuple[str, np.ndarray]]:
    """The names of the probes' targets, and their values, (n,).

    Args:
        problems: columns a, b, answer and digit.
        expression: the operator's expression.
    """
    digit = int(problems["digit"].iloc[0])
    # A digit has one place in all answers (`problems.tasks.check_places`).
    place_value = 1 if digit == WHOLE else 10 ** (len(str(problems["answer"].iloc[0])) - 1 - digit)
    yield f"{ANSWER} {place_value}", problems["answer"].to_numpy() // place_value % 10
    for name in ("a", "b"):
        values = problems[name].to_numpy()
        for power in range(len(str(abs(values).max()))):
            yield f"{name} {10**power}", values // 10**power % 10
    into = max(place_value, 10)
    carried = carries(expression, problems, into)
    if UNKNOWN not in carried:
        yield f"{CARRY} {into}", carried


def probe_table(
    run: Run, censuses: Mapping[tuple[str, str], pd.DataFrame], expression: str, prompts: int, seed: int
) -> pd.DataFrame:
    """The table of one operator.

    Args:
        censuses: census tables by format and operator.
        expression: the operator's expression.
        prompts: largest number of prompts of each format.
    """
    prompt_rows = choose_prompts(censuses, prompts, seed, apart=False)
    problems = pd.concat(list(censuses.values()))[["a", "b", "answer", "digit"]].drop_duplicates()
    read = dict(targets(prompt_rows.merge(problems, on=["a", "b"], how="left"), expression))
    probes = [task for task in tasks(prompt_rows) if task.operator != ALL and "+" not in task.trained]
    size = 8 * len(prompt_rows) * run.model.config.d_model
    step, parts = max(1, working_bytes(run.model.device, _STATE_BYTES) // size), []
    every_layer = range(run.model.config.n_layers)
    for layers in (every_layer[start : start + step] for start in every_layer[::step]):
        x = states(run, prompt_rows["prompt"].tolist(), layers)
        for name, labels in read.items():
            for task in probes:
                if len(np.unique(labels[task.train])) > 1:
                    rows = probe_rows(x, prompt_rows.assign(answer_token=labels), range(2), task, seed)
                    parts.append(rows.assign(target=name, layer=rows["layer"] + layers.start))
    table = pd.concat(parts, ignore_index=True).rename(columns={"majority": "chance"})
    table = table[~table["tested"].str.contains("+", regex=False)]
    return table.assign(point=table["position"].map({0: ATTENTION, 1: MLP}))[list(ARRIVAL_PROBES.columns)]
