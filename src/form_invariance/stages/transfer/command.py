"""Transfer between formats."""

from pathlib import Path

import pandas as pd

from form_invariance.experiment.controls import Draws
from form_invariance.experiment.means import read_means
from form_invariance.experiment.measurements import TRANSFER_PAIRS
from form_invariance.experiment.options import (
    Centred,
    Files,
    MatchedSeeds,
    RandomSeeds,
    RunOptions,
    Seed,
    Sizes,
    json_object,
    recorded,
)
from form_invariance.experiment.run import load_run, of_run
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.circuit.compute import read_circuits, read_halves
from form_invariance.stages.dataset.table import DATASET
from form_invariance.stages.patching.table import RANKING
from form_invariance.stages.transfer.conditions import plan, with_halves
from form_invariance.stages.transfer.copies import answers_of_donors, right_copies, tasks_in, with_copies
from form_invariance.stages.transfer.directions import transfer_tables
from form_invariance.stages.transfer.neuron_sets import measure, neuron_sets
from form_invariance.stages.transfer.table import DIRECTION, TRANSFER
from form_invariance.tables.files import read_table, read_tables, write_table
from form_invariance.tables.keys import by_key, common_keys


def transfer(
    *,
    model: RunOptions,
    censuses: Files,
    exclude_train: Files,
    ranking_tables: Files,
    circuit: Path,
    circuit_halves: Path,
    template_mean_caches: Files,
    tasks: str = "{}",
    pairs: int,
    k: Sizes,
    random_seeds: RandomSeeds,
    matched_seeds: MatchedSeeds,
    center_logits: Centred,
    seed: Seed,
    output_folder: Path,
    pairs_output: Path,
) -> None:
    """Transfer the shared neurons' activations between formats, in all directions of one operator.

    Args:
        censuses: census table of every format
        exclude_train: datasets whose train pairs are left out, in either order
        ranking_tables: ranking table of every format
        circuit_halves: the circuit by either half of the train prompts
        template_mean_caches: mean cache of the operator's template in every format
        tasks: copying tasks, as JSON: as in a configuration, with the limits of all their operands
        pairs: largest number of pairs in each direction, and of copying prompts in each format
        output_folder: receives DONOR_to_TARGET.parquet of every direction
        pairs_output: table by pair
    """
    settings = recorded(locals())

    answered, caches = read_tables(by_key(censuses, "format"), CENSUS), by_key(template_mean_caches, "format")
    keys = common_keys(*censuses)
    operator = keys["operator"]
    ranked = read_tables(by_key(ranking_tables, "format"), RANKING)
    copying = json_object(tasks, "--tasks")
    plans = plan(answered, [read_table(path, DATASET) for path in exclude_train], pairs, seed, operator)
    run = load_run(model)
    copies = {}
    for name in answered:
        if in_format := tasks_in(name, copying):
            copies[name] = right_copies(run, in_format, answers_of_donors(plans, name), pairs, seed)
    plans = with_halves(with_copies(plans, copies, seed, operator))
    formats, means = {}, {}
    for name, ranking in ranked.items():
        cache = read_means(caches[name], run.model)
        means[name] = cache.last_token(run.first)
        formats[name] = measure(run, ranking, cache.late_variance(run.first))
    circuits = read_circuits(circuit, k, run.late, run.width)
    halves = read_halves(circuit_halves, k, run.late, run.width)
    sets = neuron_sets(run, circuits, halves, formats, operator, Draws(random_seeds, matched_seeds, seed))
    provenance = {**settings, **of_run(run)}
    by_pair = []
    for (donor, target), rates, pair_rows in transfer_tables(run, plans, means, sets, center_logits):
        direction = dict(zip(DIRECTION, (donor, target), strict=True))
        path = output_folder / f"{donor}_to_{target}.parquet"
        write_table(rates.drop(columns=list(DIRECTION)), path, TRANSFER, provenance, keys | direction)
        by_pair.append(pair_rows)
    every_pair = pd.concat(by_pair, ignore_index=True).assign(task=operator)
    write_table(every_pair, pairs_output, TRANSFER_PAIRS, provenance, keys)
