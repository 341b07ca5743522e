"""Benchmark of replay."""

import argparse

HELP = "measure replay against the hooked full forward pass (needs transformer_lens)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--lengths", type=int, nargs="+", default=[5, 19, 27], help="prompt lengths, with BOS")
    parser.add_argument("--candidates", type=int, default=1024, help="neurons that replay patches")
    parser.add_argument("--hooked", type=int, default=12, help="neurons that the hooked forward patches")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each; the fastest counts")
    parser.add_argument("--threads", type=int, default=1, help="threads of both")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import logging
    import tempfile
    from pathlib import Path

    import torch

    from form_invariance import bench_replay, models
    from form_invariance.errors import UserError

    try:
        from transformer_lens.model_bridge import TransformerBridge
    except ImportError:
        raise UserError("the benchmark needs transformer_lens; install it with pip install '.[test]'") from None
    logging.disable(logging.WARNING)
    torch.set_num_threads(arguments.threads)
    shape = bench_replay.Shape()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench_replay.write_random_model(folder, shape)
        model = models.load(folder)
        bridge = TransformerBridge.boot_transformers(name)
    rate = bench_replay.matmul_rate(1024, shape)
    measurements = [
        bench_replay.measure(
            model, bridge, shape, length, arguments.candidates, arguments.hooked, arguments.repeats, rate
        )
        for length in arguments.lengths
    ]
    print(bench_replay.table(shape, measurements, rate, arguments.threads))
