"""The options that say where the late layers begin, and what they mean for a model."""

import argparse

from form_invariance.stages.options import named_paths


def add_late_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say where the late layers begin."""
    parser.add_argument(
        "--late-from", default="half_depth", help="first late layer: half_depth (deduced), onset or a number"
    )
    parser.add_argument(
        "--probes", nargs="+", default=[], metavar="FORMAT=FILE", help="probe tables, for --late-from onset"
    )


def first_late_layer(arguments: argparse.Namespace, n_layers: int) -> int:
    """The first late layer, of a model of so many layers, that the options mean."""
    from form_invariance.stages import late_layers

    return late_layers.first_late_layer(arguments.late_from, n_layers, named_paths(arguments.probes, "--probes"))
