"""Measure the speed of the stages that run the model.

The speed-up of replay (against a batched last token from a key/value cache, batched hooks, and one hooked pass per
neuron), and the throughput of every stage.
"""

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from form_invariance.errors import UserError
from form_invariance.experiment.options import ModelOptions, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmark.measure import Machine, Row
    from form_invariance.problems.prompts import PromptTokenizer

SUITES = ("replay", "stages")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 2 after a mistake of the user."""
    parser = argparse.ArgumentParser(prog="python -m benchmark", description=__doc__)
    _add_arguments(parser)
    try:
        run(parser.parse_args(words, argparse.Namespace(models={})))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "suites", nargs="*", default=SUITES, metavar="SUITE", help=f"{' or '.join(SUITES)}; default: both"
    )
    parser.add_argument("--model", default="random:small", help="or a source as of the other commands")
    parser.add_argument("--revision", help="hub branch, tag or commit")
    parser.add_argument("--dtype", default="float32", choices=["float32", "tf32", "bfloat16"])
    parser.add_argument("--device", default="auto", help="auto, or a torch device")
    # The logits of random models are too flat for the near readout: most patches would be read out twice.
    parser.add_argument("--readout", default="full", choices=["near", "full"])
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[5, 19, 27, 200],
        help="replay: lengths of the prompt in tokens, with BOS",
    )
    parser.add_argument("--candidates", type=int, default=1024, help="neurons to patch in a layer")
    parser.add_argument(
        "--hooked",
        type=int,
        default=4,
        help="replay: neurons to patch in a layer by one hooked pass each",
    )
    parser.add_argument("--prompts", type=int, default=8, help="stages: prompts in the cell")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each measurement; the fastest counts")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument(
        "--output", type=Path, default=Path("results/bench"), help="folder for the table and the figure"
    )


def run(arguments: argparse.Namespace) -> None:
    """Measure the suites."""
    import tempfile

    import torch

    from benchmark import random_models
    from form_invariance.experiment.model_options import device_of, dtype_of

    unknown = [suite for suite in arguments.suites if suite not in SUITES]
    if unknown:
        raise UserError(f"bench: unknown suite {unknown[0]!r}; use {', '.join(SUITES)}")
    for option in ("candidates", "hooked", "prompts", "repeats", "threads"):
        if vars(arguments)[option] < 1:
            raise UserError(f"--{option} must be at least 1")
    if min(arguments.lengths) < 2:
        raise UserError("--lengths must be at least 2")
    torch.set_num_threads(arguments.threads)
    if not arguments.model.startswith(random_models.PREFIX):
        return _measure(arguments)
    shape = random_models.shape_named(arguments.model)
    with tempfile.TemporaryDirectory() as name:
        random_models.write_random_model(Path(name), shape, dtype_of(arguments.dtype), device_of(arguments.device))
        return _measure(argparse.Namespace(**{**vars(arguments), "model": name}), label=arguments.model)


def _measure(arguments: argparse.Namespace, label: str | None = None) -> None:
    """Measure a model from a folder or the hub; `label` is its name in the table."""
    from benchmark import measure, report
    from benchmark.rate import matmul_rate
    from form_invariance.experiment.model_options import load_model
    from form_invariance.model.near_readout import Readouts

    names = ("model", "revision", "dtype", "device", "readout")
    options = ModelOptions(**{name: getattr(arguments, name) for name in names})
    model, tokenizer = load_model(options)
    width = model.config.d_mlp
    arguments.candidates, arguments.hooked = min(arguments.candidates, width), min(arguments.hooked, width)
    readouts = Readouts(full=arguments.readout == "full")
    machine = measure.Machine(model, matmul_rate(model), arguments.repeats, readouts)
    provenance = {
        **recorded({"model": options}),
        "device": model.device.type,
        **({"model": label} if label else {}),
        "threads": arguments.threads,
        "matmul_rate": machine.rate,
    }
    rows = []
    # Garbage is collected before every measurement. Then it skips everything that is imported by now.
    gc.freeze()
    for suite in arguments.suites:
        for row in _suite(suite, machine, tokenizer, arguments):
            rows.append(row)
            print(report.line(row), flush=True)
    report.write(rows, arguments.output, provenance)
    print(report.summary(rows, provenance))


def _suite(
    suite: str, machine: "Machine", tokenizer: "PromptTokenizer", arguments: argparse.Namespace
) -> "Iterator[Row]":
    from benchmark import random_models, replay, stages

    sizes = arguments.candidates, arguments.hooked
    if suite == "stages":
        for template in (random_models.SYMBOLIC, random_models.WORD):
            yield from stages.measure(machine, tokenizer, template, arguments.prompts, arguments.candidates)
    else:
        theirs = _rivals(arguments)
        for length in arguments.lengths:
            yield from replay.measure(machine, theirs, length, *sizes)


def _rivals(arguments: argparse.Namespace) -> dict[str, Any]:
    """The model, loaded with the library of each rival that is installed."""
    from benchmark import rivals
    from form_invariance.experiment.model_options import device_of, dtype_of
    from form_invariance.model.files import resolve

    folder = resolve(arguments.model, arguments.revision)
    return rivals.load(folder, dtype_of(arguments.dtype), device_of(arguments.device))


if __name__ == "__main__":
    sys.exit(main())
