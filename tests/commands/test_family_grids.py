"""Every architecture with a tokenizer of its kind: the grid runs, and asks what Hugging Face would answer."""

import numpy as np
import pytest
import torch
from configurations import SHIPPED
from digit_tokenizers import byte_level, metaspace
from replayed_run import calls_of, replay

from conftest import FAMILIES, write_model
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.templates import render
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.interventions.table import INTERVENTIONS
from form_invariance.stages.overlap.table import OVERLAP
from form_invariance.tables.files import read_table

pytestmark = pytest.mark.nightly

TEMPLATES = {"symbolic": "{a}+{b}=", "code": "print({a} + {b})  # ", "word": "From {a} to {b} and on: "}
CONFIG = SHIPPED | {
    "formats": {name: {"templates": {"addition": text}} for name, text in TEMPLATES.items()},
    **{"k": [4], "k_shown": 4, "train_prompts": 5, "eval_prompts": 4, "corrupt_seeds": 1},
    **{"mean_cache_prompts": 30, "transfer_pairs": 200, "bootstrap": 200},
    **{"variant_operators": [], "specificity_tasks": {}},
}
DIGITS = {"operators": {"addition": {"expression": "a + b", "digit": 1}}}
DIGITS |= {"operands": vars(OperandRange(10, 45, 20, 89))}
WHOLE = {"operators": {"addition": "a + b"}, "operands": vars(OperandRange(6, 80, 12, 120))}
TABLES = ("addition/overlap", "intervention_contrasts", "transfer_contrasts")
MADE = [f"results/m/shared/{name}.parquet" for name in TABLES]
SPLIT = {
    "qwen2": byte_level,
    "qwen3": byte_level,
    "gemma2": lambda templates: metaspace(templates, prepend=False),
    "gemma3": lambda templates: metaspace(templates, prepend=False),
    "mistral": lambda templates: metaspace(templates, prepend=True),
    "phi3": lambda templates: metaspace(templates, prepend=True),
}
"""The families whose tokenizers split numbers into digits."""


def answer_numbers(folder, tokenizer, numbers):
    """Let the model of a folder answer with some numbers only, many different ones, so that some are right."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    weight = model.get_output_embeddings().weight
    tokens = torch.tensor([tokenizer.token_to_id(str(number)) for number in numbers])
    others = torch.ones(len(weight), dtype=torch.bool).index_fill(0, tokens, value=False)
    weight.data[others] *= 0.02
    # What all prompts of a template have in common would make it give one answer to all of them. Where the weights
    # are the embedding's too, this changes what they have in common, so it is done again.
    for _ in range(1 + 4 * model.config.tie_word_embeddings):
        means = []
        for template in TEMPLATES.values():
            ids = [tokenizer.encode(render(template, 20 + row % 7, 11 + row // 7)).ids for row in range(49)]
            with torch.no_grad():
                states = model(torch.tensor(ids), output_hidden_states=True).hidden_states[-1]
            means.append(states[:, -1].mean(0))
        common, _ = torch.linalg.qr(torch.stack(means, dim=1))
        weight.data -= weight.data @ common @ common.T
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="module", params=FAMILIES)
def finished(request, tmp_path_factory, raw_tokenizer):
    """Family, Hugging Face's model and tokenizer, and the folder with all tables."""
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp(request.param)
    grid = DIGITS if request.param in SPLIT else WHOLE
    tokenizer = SPLIT[request.param](TEMPLATES.values()) if grid is DIGITS else raw_tokenizer
    model = folder / "model"
    write_model(model, request.param, tokenizer)
    numbers = range(10) if grid is DIGITS else range(12, 121)
    theirs = answer_numbers(model, tokenizer, numbers)
    config = CONFIG | grid | {"models": {"m": {"source": str(model), "device": "cpu"}}}
    replay(calls_of(folder / "checkout", config, *MADE), folder)
    return request.param, theirs, PreTrainedTokenizerFast.from_pretrained(model), folder / "results/m"


def test_the_census_is_what_hugging_face_answers(finished):
    family, model, tokenizer, folder = finished
    for name in TEMPLATES:
        table = read_table(folder / name / "addition/census.parquet", CENSUS)
        assert 0.001 < table["correct"].mean() < 0.6
        some = table.sample(12, random_state=0)
        for prompt, predicted, probability in some[["prompt", "predicted_token", "probability"]].to_numpy():
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
            with torch.no_grad():
                z = model(ids).logits[0, -1]
            assert int(z.argmax()) == predicted, prompt
            answer = some.loc[some["prompt"] == prompt, "answer_token"].item()
            assert z.softmax(-1)[answer].item() == pytest.approx(probability, rel=1e-4)
        if family in SPLIT:
            assert (table["prompt"].str[-1] == (table["answer"] // 10).astype(str)).all()


def test_all_stages_give_numbers(finished):
    *_, folder = finished
    overlap = read_table(folder / "shared/addition/overlap.parquet", OVERLAP)
    assert set(overlap["k"]) == {4}
    for name in TEMPLATES:
        found = read_table(folder / name / "addition/interventions.parquet", INTERVENTIONS)
        assert np.isfinite(found.loc[found["n_neurons"] > 0, "probability"]).all()
    assert all((folder.parents[1] / path).exists() for path in MADE)
