"""What the tests share: small models of real architectures with random weights, checkouts, a browser."""

import gc
import os
import shutil
from pathlib import Path

import pytest
import torch
from stub_checkout import ROOT, finished_copy, make_checkout

from embedded_training.problems import read_templates
from embedded_training.recipe import RECIPES
from embedded_training.tokenizer import build_tokenizer
from form_invariance.experiment.run import Run
from form_invariance.model import loading as models
from form_invariance.model.files import PACKAGED
from form_invariance.model.tokenizers import load_tokenizer

FAMILIES = ("llama", "llama-tied", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "olmo2", "phi3")
FAMILIES += ("gpt-neox", "gpt-neox-sequential", "gpt2")


def _configuration(family: str, vocabulary: int):
    import transformers as hf

    common = {"vocab_size": vocabulary, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 4}
    common |= {"num_attention_heads": 6, "num_key_value_heads": 2, "initializer_range": 0.15}
    common |= {"tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}
    scaled = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 16}
    scaled |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    local = {"rope_type": "default", "rope_theta": 10000.0}
    partial = {"rope_parameters": {**local, "partial_rotary_factor": 0.5}}
    tied = {"num_key_value_heads": 6, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}
    gemma = {"head_dim": 12, "query_pre_attn_scalar": 20, "sliding_window": 64, "tie_word_embeddings": True}
    # These caps are low enough to matter to such small weights.
    gemma2 = {**gemma, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}
    linear = {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0}
    gemma3 = {**gemma, "layer_types": ["sliding_attention", "full_attention"] * 2}
    gemma3 |= {"rope_parameters": {"sliding_attention": local, "full_attention": linear}}
    gpt2 = {"n_embd": 48, "n_inner": 80, "n_layer": 4, "n_head": 6, "n_positions": 64}
    name, changes = {
        "llama": ("Llama", {"rope_parameters": scaled}),
        "llama-tied": ("Llama", tied),
        "mistral": ("Mistral", {}),
        "qwen2": ("Qwen2", {}),
        "qwen3": ("Qwen3", {"head_dim": 16}),
        "gemma2": ("Gemma2", gemma2),
        "gemma3": ("Gemma3Text", gemma3),
        "olmo2": ("Olmo2", {}),
        "phi3": ("Phi3", partial),
        "gpt-neox": ("GPTNeoX", partial),
        "gpt-neox-sequential": ("GPTNeoX", {**partial, "use_parallel_residual": False}),
        "gpt2": ("GPT2", gpt2),
    }[family]
    if name == "GPT2":
        common = {key: common[key] for key in ("vocab_size", "initializer_range", "bos_token_id", "eos_token_id")}
    if name == "GPTNeoX":
        del common["num_key_value_heads"]
    return getattr(hf, f"{name}Config")(**{**common, **changes})


def write_model(folder: Path, family: str, tokenizer) -> Path:
    """Write a Hugging Face folder with random weights, norms and biases included."""
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(_configuration(family, tokenizer.get_vocab_size()))
    for name, parameter in model.named_parameters():
        if "norm" in name or ".ln_" in name:
            parameter.data = 1 + 0.3 * torch.randn_like(parameter)
        if name.endswith("bias"):
            parameter.data = 0.3 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin_of_text|>")
    wrapped.save_pretrained(folder)
    return folder


class FamilyFolders(dict):
    """Folders of models by family, each written when it is first asked for."""

    def __init__(self, base: Path, tokenizer):
        super().__init__()
        self.base, self.tokenizer = base, tokenizer

    def __missing__(self, family):
        folder = self.base / family
        self[family] = folder if folder.exists() else write_model(folder, family, self.tokenizer)
        return self[family]


def at_night(values):
    """Parameters from tuples; all but the first run in the nightly tests."""
    first, *others = values
    return [first, *(pytest.param(*one, marks=pytest.mark.nightly) for one in others)]


def pytest_collection_modifyitems(items):
    """Slow files come first; of those that read the planted run, one makes it early, the others come last."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    waiting = ("browser", "drawing", "explainer")
    items.sort(key=lambda item: (item.path not in slow, item.path.parent.name in waiting))


def pytest_collection_finish():
    """Imported modules are never garbage, so the collector need not look through them again."""
    gc.freeze()


@pytest.fixture(scope="session")
def templates():
    return read_templates(ROOT / "config/config.yaml")


@pytest.fixture(scope="session")
def raw_tokenizer(templates):
    return build_tokenizer(templates.all())


@pytest.fixture(scope="session")
def family_folders(tmp_path_factory, raw_tokenizer):
    kept = os.environ.get("TEST_MODELS")
    return FamilyFolders(Path(kept) if kept else tmp_path_factory.mktemp("models"), raw_tokenizer)


@pytest.fixture(scope="session")
def tiny_folder(family_folders):
    return family_folders["llama"]


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    """Decoder and tokenizer of the small Llama with grouped-query attention."""
    return models.load(tiny_folder), load_tokenizer(tiny_folder)


@pytest.fixture(scope="session")
def run(tiny):
    """The same model, of which two of the four layers are late."""
    return Run(*tiny, first=2)


@pytest.fixture(scope="session")
def packaged():
    """Decoder, tokenizer and folder of the models that come with the package."""
    return {n: (models.load(PACKAGED / n), load_tokenizer(PACKAGED / n), PACKAGED / n) for n in RECIPES}


@pytest.fixture
def packaged_copy(tmp_path):
    return Path(shutil.copytree(PACKAGED / "embedded-shared", tmp_path / "model"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout in which nothing has run."""
    return make_checkout(tmp_path_factory.mktemp("clean") / "checkout")


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A checkout whose small grid has run; a test that changes it must restore it."""
    return finished_copy(tmp_path_factory, "finished")


@pytest.fixture(scope="session")
def planted(tmp_path_factory):
    """The run of the model whose formats share their neurons, which tests only read."""
    from planted_run import planted

    return planted(tmp_path_factory)


@pytest.fixture(scope="module")
def chromium():
    """Chromium without a screen; a test that needs it is skipped where it is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


@pytest.fixture
def open_from_disk(chromium):
    """Opens HTML files without a network; at the end the console must be clean and every request answered."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    troubles = []

    def open_page(path, fragment=""):
        tab = context.new_page()
        tab.on("console", lambda message: troubles.append(message.text) if message.type != "log" else None)
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("requestfailed", lambda request: troubles.append(request.url))
        tab.goto(path.as_uri() + fragment)
        return tab

    yield open_page
    context.close()
    assert troubles == []
