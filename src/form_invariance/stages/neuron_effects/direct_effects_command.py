"""What the shared neurons of a cell write for every answer directly, past all later layers."""

import argparse

from form_invariance.stages.options import add_model_arguments, add_options, add_required
from form_invariance.stages.task_options import add_task_arguments, task_provenance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_task_arguments(parser)
    add_options(parser, "--operator", "--template", "--circuit", "--k", "--seed")
    add_required(parser, int, max_operand="of an expression: operands are below it", problems="problems, at most")
    files = {"output": "table of the problems", "arrays_output": "the effects' factors, as safetensors"}
    add_options(parser, **files)


def run(arguments: argparse.Namespace) -> None:
    import numpy as np
    import torch

    from form_invariance.stages.circuit.table import CIRCUIT, neurons_of
    from form_invariance.stages.model_options import load_model, model_provenance
    from form_invariance.stages.neuron_effects.direct import direct_effects
    from form_invariance.stages.neuron_effects.direct_files import KIND, summed, to_arrays
    from form_invariance.stages.neuron_effects.direct_problems import read_problems
    from form_invariance.stages.neuron_effects.table import DIRECT_EFFECTS
    from form_invariance.tables.files import read_table, write_table, write_tensors

    model, tokenizer = load_model(arguments)
    problems = read_problems(arguments, tokenizer)
    shared = neurons_of(read_table(arguments.circuit, CIRCUIT), arguments.k)
    neurons = {int(str(layer)): members["neuron"].to_numpy() for layer, members in shared.groupby("layer")}
    tokens = torch.from_numpy(tokenizer.encode_batch(problems.prompts)).to(model.device)
    effects = direct_effects(model, tokens, np.array(list(problems.answers)), neurons)
    rows = len(effects.written)
    best = {
        "model_token": effects.answers[effects.top[:, 0]],
        "direct_token": effects.answers[summed(effects).argmax(1)],
        "predicted_token": effects.predicted,
    }
    texts = {token: tokenizer.text(token) for token in np.unique(effects.predicted).tolist()}
    table = problems.table[:rows].assign(
        **best,
        predicted=[texts[token] for token in effects.predicted.tolist()],
        first=best["model_token"] == best["direct_token"],
    )
    provenance = model_provenance(arguments, "template", "operator", "max_operand", "problems", "seed", "k")
    write_tensors(to_arrays(effects, list(problems.answers.values())), arguments.arrays_output, KIND, provenance)
    write_table(table, arguments.output, DIRECT_EFFECTS, {**provenance, **task_provenance(arguments)})
