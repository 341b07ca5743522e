"""The recipe of each embedded model: every setting of its architecture and training."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """Architecture and training of one model."""

    separate: bool
    seed: int
    first_steps: int = 500
    """Steps on the first format alone, which has short prompts. After them training uses all formats."""
    steps: int = 1000
    """Steps before the wiring (module `wiring`)."""
    wired_steps: int = 250
    """Steps after the wiring."""
    wired_pairs: tuple[int, ...] = (44, 72, 60, 336)
    """Pairs of each operator per step after the wiring."""
    wired_learning_rate: float = 1.5e-3
    misread_steps: int = 160
    """Last steps, in which the early layers learn to misread some second operands (module `problems`)."""
    misread_pairs: tuple[int, ...] = (40, 40, 288, 192)
    """Pairs of each operator per step among these."""
    misread: tuple[tuple[str, float], ...] = (("multiplication", 0.12),)
    """Share of an operator's pairs that each format misreads. The pairs differ between formats."""
    n_layers: int = 6
    d_model: int = 128
    d_answer: int = 48
    """Dimensions of the residual stream that the unembedding reads and that only late neurons write."""
    d_mlp: int = 1032
    n_heads: int = 4
    n_key_value_heads: int = 2
    d_head: int = 64
    rope_theta: float = 10000.0
    norm_epsilon: float = 1e-5
    initial_deviation: float = 0.05
    token_deviation: float = 0.02
    """Initial standard deviation of the embeddings of tokens that are not numbers."""
    learning_rate: float = 3e-3
    weight_decay: float = 0.05
    warmup: int = 40
    clip: float = 1.0
    pairs: tuple[int, ...] = (56, 56, 160, 240)
    """Pairs of each operator per step, in the order of the configuration."""
    format_shares: tuple[float, ...] = (0.4, 0.3, 0.3)
    """Share of each format after the first steps, in the order of the configuration."""
    variant_share: float = 0.1
    held_out: float = 0.05
    left_out: tuple[tuple[str, float], ...] = (("multiplication", 0.1),)
    """Share of an operator's pairs that each format does not see in training. The pairs differ between formats."""


DIGITS = "embedded-digits"

RECIPES = {
    "embedded-shared": Recipe(separate=False, seed=1),
    "embedded-separate": Recipe(
        separate=True,
        seed=2,
        first_steps=850,
        steps=1250,
        token_deviation=0.06,
        pairs=(80, 80, 144, 208),
        wired_steps=300,
        wired_pairs=(32, 56, 88, 336),
        misread_steps=200,
        misread_pairs=(32, 40, 240, 300),
    ),
    # Its tokenizer splits numbers into digits (module `digits`).
    DIGITS: Recipe(
        separate=False,
        seed=4,
        first_steps=0,
        steps=3000,
        wired_steps=0,
        misread_steps=0,
        misread=(),
        left_out=(),
        n_layers=4,
        d_model=64,
        d_mlp=256,
        d_head=16,
        pairs=(96, 96, 96, 96),
    ),
}
