"""Join the indirect effects that several patching jobs of one cell computed."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_required(parser, Path, "+", shards="the jobs' indirect effects")
    add_options(parser, output="indirect effects of the cell (safetensors)")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.patching.shards import merge
    from form_invariance.tables.files import read_tensors, write_tensors

    tensors, provenance = merge({path: read_tensors(path, "indirect_effects") for path in arguments.shards})
    write_tensors(tensors, arguments.output, "indirect_effects", provenance)
