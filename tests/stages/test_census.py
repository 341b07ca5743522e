import zlib

import numpy as np
import pytest
import torch
from digit_tokenizers import by_digit
from scipy.special import logsumexp
from transformers import AutoModelForCausalLM

from form_invariance.errors import UserError
from form_invariance.model import prefixes
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.census import compute as module
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.mean_cache.compute import choose_prompts

TASK = Arithmetic("a + b", OperandRange(operand_min=6, operand_max=30, answer_min=3, answer_max=60))
TEMPLATE = "a = {a}\nb = {b}\nprint(a + b)  # "


def test_every_column_equals_hugging_faces_logits(tiny, tiny_folder, monkeypatch):
    model, tokenizer = tiny
    monkeypatch.setattr(prefixes, "rows_at_once", lambda model: 30)
    table = take_census(model, tokenizer, TEMPLATE, "addition", TASK, 40, 0)
    assert table["uniform"].sum() == 40
    assert (table["answer"] == table["a"] + table["b"]).all()
    with torch.no_grad():
        theirs = AutoModelForCausalLM.from_pretrained(tiny_folder)
        z = theirs(torch.from_numpy(tokenizer.encode_batch(table["prompt"].tolist()))).logits[:, -1].double()
    answers = torch.from_numpy(tokenizer.number_tokens(table["answer"].to_numpy()))[:, None]
    own = z.gather(1, answers)
    np.testing.assert_allclose(table["logit"], (own[:, 0] - z.mean(1)).numpy(), atol=1e-4)
    np.testing.assert_allclose(table["probability"], z.softmax(1).gather(1, answers)[:, 0], rtol=1e-3)
    assert table["rank"].tolist() == ((z > own).sum(1) + 1).tolist()
    assert table["predicted"].tolist() == [tokenizer.text(token) for token in z.argmax(1).tolist()]


@pytest.mark.parametrize("vocabulary", [300, 50_000])
def test_columns_equal_plain_ones_and_ties_go_to_the_smaller_token(vocabulary):
    rng = np.random.default_rng(0)
    whole = rng.integers(-300, 5, size=(20, vocabulary))  # many ties; exp of most underflows in float32
    whole[0], whole[1, -3:] = 3, 5
    logits = whole.astype(np.float32)
    wanted = np.array([vocabulary - 2, vocabulary - 2, *rng.integers(vocabulary, size=18)])
    columns = dict(module._answers(torch.from_numpy(logits), torch.from_numpy(wanted), "the logits"))
    ordered = np.lexsort((np.broadcast_to(np.arange(vocabulary), whole.shape), -whole))
    assert columns["predicted_token"].tolist() == ordered[:, 0].tolist()
    assert columns["rank"].tolist() == ((ordered == wanted[:, None]).argmax(1) + 1).tolist()
    assert columns["correct"].tolist() == (ordered[:, 0] == wanted).tolist()
    own = whole[np.arange(20), wanted].astype(float)
    np.testing.assert_allclose(columns["logit"], own - whole.mean(1), rtol=1e-5)
    expected = np.exp(own - logsumexp(whole.astype(float), axis=1))
    assert expected.min() < 1e-60
    np.testing.assert_allclose(columns["probability"], expected, rtol=1e-5)


def test_mean_cache_prompts_share_no_pair_with_a_dataset(tiny):
    model, tokenizer = tiny
    table = take_census(model, tokenizer, TEMPLATE, "addition", TASK, 100, 0)
    dataset = table.iloc[:30]
    turned = dataset.rename(columns={"a": "b", "b": "a"})
    chosen = choose_prompts({"x": table, "y": table}, [dataset, turned], 20, 0)
    assert [len(prompts) for prompts in chosen.values()] == [10, 10]
    assert not set(chosen["x"]) & set(dataset["prompt"])
    assert chosen == choose_prompts({"x": table, "y": table}, [turned], 20, 0)
    with pytest.raises(UserError, match="every census pair"):
        choose_prompts({"x": table}, [table], 20, 0)


@pytest.mark.parametrize("digit", [0, 1, 2])
def test_digits_asked_in_one_pass_are_those_of_a_prompt_each(tiny, raw_tokenizer, digit):
    tokenizer = PromptTokenizer(by_digit(raw_tokenizer), 0)
    limits = OperandRange(operand_min=1, operand_max=300, answer_min=100, answer_max=400)
    table = take_census(tiny[0], tokenizer, "{a} + {b}=", "x", Arithmetic("a + b", limits, digit), 60, 0)
    assert table["prompt"].str.len().nunique() > 1
    alone = module.ask(tiny[0], tokenizer, table["prompt"].tolist(), table["answer_token"].to_numpy())
    assert (table["answer_token"].map(tokenizer.text) == table["answer"].astype(str).str[digit]).all()
    for name in ("predicted_token", "correct"):
        assert (table[name] == alone[name]).all()
    np.testing.assert_allclose(table["logit"], alone["logit"], atol=1e-5)
    np.testing.assert_allclose(table["probability"], alone["probability"], rtol=1e-5)


def test_a_whole_answer_is_right_if_every_digit_is(tiny, raw_tokenizer, monkeypatch):
    """The model is replaced by one that answers at random, but always the same to the same prompt."""
    tokenizer = PromptTokenizer(by_digit(raw_tokenizer), None)

    def right(prompt):
        return zlib.crc32(prompt.encode()) % 10 > 2

    def ask(model, tokenizer, prompts, answers):
        digits = answers.shape[1]
        starts = [[prompt[: len(prompt) - digits + 1 + place] for place in range(digits)] for prompt in prompts]
        correct = np.array([[right(start) for start in own] for own in starts])
        return {"correct": correct, "predicted_token": answers}

    monkeypatch.setattr(module, "ask", ask)
    limits = OperandRange(operand_min=0, operand_max=60, answer_min=0, answer_max=120)
    for digit in (0, 1):
        table = take_census(tiny[0], tokenizer, "{a}+{b}=", "tens", Arithmetic("a + b", limits, digit), 300, 0)
        for row in table.itertuples():
            text, start = str(row.a + row.b), f"{row.a}+{row.b}="
            assert row.prompt == start + text[:digit]
            assert row.correct == right(row.prompt)
            assert row.whole_correct == all(right(start + text[:place]) for place in range(len(text)))
        assert 0 < table["whole_correct"].sum() < table["correct"].sum()
