"""Indirect object identification (Wang et al. 2023), in the sentences of TransformerLens's `IOIDataset`.

A task that was made elsewhere: "Then, John and Mary went to the store. John gave the milk to" asks for Mary. The
corrupt sentence has the two names exchanged.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import torch

from form_invariance.bench.measure import Machine, Row
from form_invariance.bench.replay import Patches
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import first_tokens

_DRAWN = 400
"""Sentences that are drawn: the data set has 24 different ones."""


def sentences(tokenizer: PromptTokenizer) -> pd.DataFrame:
    """All different prompts, with those of the corrupt run, and the first tokens of both answers.

    Returns:
        Columns prompt, corrupt, answer_token, corrupt_token; prompts of the same template are neighbours.
    """
    from transformer_lens.evals import IOIDataset

    samples = IOIDataset(tokenizer=None, num_samples=_DRAWN, symmetric=True, seed=0).samples
    rows = [(one["text"].removesuffix(one["IO"]), one["IO"].strip()) for one in samples]
    pairs = [(*one, *other) for one, other in zip(rows[::2], rows[1::2], strict=True)]
    both = pairs + [(*pair[2:], *pair[:2]) for pair in pairs]
    table = pd.DataFrame(both, columns=["prompt", "answer", "corrupt", "corrupt_answer"]).drop_duplicates()
    for column, prompts in (("answer", "prompt"), ("corrupt_answer", "corrupt")):
        table[column] = first_tokens(tokenizer, table[prompts].tolist(), table[column], "IOI")
    renamed = table.rename(columns={"answer": "answer_token", "corrupt_answer": "corrupt_token"})
    return renamed.sort_values("prompt", ignore_index=True)


@torch.no_grad()
def measure(
    machine: Machine,
    tokenizer: PromptTokenizer,
    theirs: Mapping[str, Any],
    prompts: int,
    candidates: int,
    hooked: int,
) -> Iterator[Row]:
    """As `replay.measure`, on some of the sentences and with the activations of their corrupt sentences.

    Args:
        prompts: how many sentences, evenly from all.
    """
    every = sentences(tokenizer)
    chosen = every.iloc[[place * len(every) // prompts for place in range(min(prompts, len(every)))]]
    for row in chosen.to_dict("records"):
        tokens, corrupt = (
            torch.from_numpy(tokenizer.encode_batch([row[name]])).to(machine.model.device)
            for name in ("prompt", "corrupt")
        )
        answers = torch.tensor([[row["answer_token"], row["corrupt_token"]]], device=machine.model.device)
        yield from Patches(machine, "ioi", tokens, corrupt, answers).compare(theirs, candidates, hooked)
