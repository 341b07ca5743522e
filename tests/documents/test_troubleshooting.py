"""The troubleshooting guide: its example works, and two of the errors that it explains are raised."""

import itertools
import re
import subprocess
import sys

import pytest
import torch
from stub_checkout import ROOT

from form_invariance.errors import UserError
from form_invariance.experiment.model_options import device_of
from form_invariance.model import indirect_effect, tokenizers
from form_invariance.model import loading as models
from form_invariance.model.near_readout import Readouts
from form_invariance.model.replay import last_token_neurons
from form_invariance.stages.patching import compute as patching

GUIDE = (ROOT / "docs/troubleshooting.md").read_text()


def test_a_replay_that_differs_and_a_device_that_is_not_there(tiny, monkeypatch):
    model = tiny[0]
    tokens, answers = torch.tensor([[0, 5, 6, 7]]), torch.tensor([[[8, 9]]])
    corrupt = last_token_neurons(model, tokens + 1, 2)[None]
    calls = itertools.count()
    for module in (patching, indirect_effect):
        monkeypatch.setattr(module, "log_probabilities", lambda *_: torch.full((1, 5, 2), float(next(calls))))
    with pytest.raises(RuntimeError, match=r"^layer 3: replay differs from the ordinary pass by 1\.0e\+00"):
        patching.patch_layers(model, tokens, 2, {3: torch.arange(4)}, corrupt, answers, lambda _: None, Readouts())
    with pytest.raises(UserError, match=r"^--device: 'cuda:99' cannot be used here"):
        device_of("cuda:99")


def test_pickled_weights_are_converted(tiny_folder, tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "OLD").symlink_to(tiny_folder)
    subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True)
    before, after = models.load(tiny_folder), models.load(tmp_path / "NEW")
    assert torch.equal(before.layers[1].down, after.layers[1].down)
    tokenizers.load_tokenizer(tmp_path / "NEW")
