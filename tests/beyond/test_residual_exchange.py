"""Exchange of the residual stream: states against transformers' hooks, donors by brute force, known layers."""

import numpy as np
import pandas as pd
import pytest
import torch
from hooked_states import HookedStates
from hugging_face import HuggingFace
from planted_models import TEMPLATES, census_of, model_of, run_of, save
from small_prompts import PAIRS, PROMPTS

from form_invariance.beyond.residual_exchange import compute, contrasts
from form_invariance.beyond.residual_exchange.donors import donations
from form_invariance.experiment.run import Run
from form_invariance.model import loading
from form_invariance.model.tokenizers import load_tokenizer


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_exchanges_equal_hooks_over_whole_sequences(family_folders, family):
    folder = family_folders[family]
    run = Run(loading.load(folder), load_tokenizer(folder), first=0)
    target, donor = (
        [PROMPTS[name].format(a=a, b=b) for a, b in pairs]
        for name, pairs in (("word", PAIRS), ("symbolic", PAIRS[::-1]))
    )
    hooked = HookedStates(HuggingFace(folder).model)
    # One prompt at a time, because their lengths differ.
    alone = [[run.tokens([prompt]) for prompt in prompts] for prompts in (target, donor)]
    z = torch.cat([hooked.exchanged(*both) for both in zip(*alone, strict=True)])
    own, other = (torch.cat([hooked.run(one)[0].argmax(-1) for one in prompts]) for prompts in alone)
    rows = {"donor": "format", "donor_format": "symbolic", "a": 1, "b": 2}
    given = pd.DataFrame({"prompt": target, "own_token": own, "donor_prompt": donor, "donor_token": other, **rows})
    table = compute.run_exchanges(run, given)
    expected = z.double().softmax(-1)
    for name, tokens in (("donor", other), ("own", own)):
        p = expected.gather(2, tokens[:, None, None].expand(-1, z.shape[1], 1))
        np.testing.assert_allclose(table[f"{name}_probability"], p.flatten(), atol=2e-6)
        assert table[f"{name}_answer"].tolist() == (z.argmax(-1) == tokens[:, None]).flatten().tolist()
    assert expected.max(-1).values.std() > 1e-4
    # After the last MLP the state is the donor's output.
    assert table.loc[table.index % z.shape[1] == z.shape[1] - 1, "donor_answer"].all()


FORMATS = list(TEMPLATES)
PROMPTS_OF_A_CELL = 16


@pytest.fixture(scope="module", params=[1.0, 0.0], ids=["shared", "separate"])
def exchanged(tmp_path_factory, request):
    """The planted model, whose attention of layer 0 brings both operands: its run, donations and tables."""
    return exchanged_in(tmp_path_factory.mktemp("planted"), model_of(request.param, 3))


def exchanged_in(folder, model):
    save(folder, *model)
    run = run_of(folder)
    censuses = {name: census_of(run, template, "addition", None, 3) for name, template in TEMPLATES.items()}
    chosen = {
        name: census[census["correct"]].iloc[place :: len(FORMATS)].sample(PROMPTS_OF_A_CELL, random_state=place)
        for place, (name, census) in enumerate(censuses.items())
    }
    datasets = {
        (name, "addition"): rows.assign(split="eval", index=range(len(rows))) for name, rows in chosen.items()
    }
    given = {name: donations((name, "addition"), datasets, censuses, 0) for name in FORMATS}
    return run, given, {(name, "addition"): compute.run_exchanges(run, some) for name, some in given.items()}


def layers_of(tables):
    """Values by quantity of the table of layers, and the verdicts over all cells."""
    found = contrasts.exchanges(tables, 50, 0)
    verdicts = contrasts.contrasts(found).query("format == operator == 'all'").set_index("question")["verdict"]
    return contrasts.layers(found).groupby("quantity")["value"].agg(set), verdicts.to_dict()


def test_the_layer_is_that_whose_attention_brings_the_operands(exchanged):
    """Also where formats share no neuron: the state contains the mark by which neurons know their format."""
    _, given, tables = exchanged
    values, verdicts = layers_of(tables)
    assert values.to_dict() == {"meets": {0.0}, "leaves": {-0.5}}
    assert verdicts == {"meet": "yes", "served": "yes"}
    assert {donor for some in given.values() for donor in some["donor"]} == {"format", "repair"}
    for table in tables.values():
        assert table.loc[table["donor"] == "format", "donor_answer"].all()
        assert table["permuted_answer"].max() < 0.5
