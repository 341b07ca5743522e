"""Knock out each shared neuron of one cell alone."""

import argparse

from form_invariance.stages.options import add_options, add_run_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_options(parser, "--dataset", "--circuit", "--mean-cache", "--k", "--center-logits")
    add_options(parser, output="table of the neurons")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.circuit.compute import circuit_members
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.dataset.prompts import read_eval
    from form_invariance.stages.mean_cache.compute import read_means
    from form_invariance.stages.neuron_effects.compute import neuron_effects
    from form_invariance.stages.neuron_effects.table import NEURON_EFFECTS
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.tables.files import read_table, write_table
    from form_invariance.tables.keys import common_keys

    run = load_run(arguments)
    tokens, answers = read_eval(arguments.dataset, run.tokenizer, run.model.device)
    circuit = circuit_members(read_table(arguments.circuit, CIRCUIT), arguments.k, run.late, run.width)
    means = read_means(arguments.mean_cache, run.model)
    table = neuron_effects(run, tokens, answers, circuit, means, arguments.center_logits)
    provenance = {**run_provenance(arguments, run, "center_logits", "k"), "prompts": len(tokens)}
    write_table(table, arguments.output, NEURON_EFFECTS, provenance, common_keys(arguments.dataset))
