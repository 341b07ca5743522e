"""Prompts of one cell."""

from pathlib import Path

from form_invariance.experiment.options import OtherFiles, Seed, recorded
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.dataset.compute import Choice, distinct_answers, make_dataset
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.tables.files import provenance_of, read_table, write_table
from form_invariance.tables.keys import by_key, common_keys


def dataset(
    *,
    census: Path,
    other_censuses: OtherFiles = (),
    train: int,
    eval: int,
    corrupt_seeds: int,
    seed: Seed,
    output: Path,
    corrupt_output: Path,
) -> None:
    """Choose train and eval prompts and corrupt partners of one cell from its census.

    Args:
        census: census table of the cell
        other_censuses: censuses of the other operators; corrupt partners then come from all operators
        train: train prompts
        eval: eval prompts
        corrupt_seeds: draws of corrupt partners
        output: dataset table
        corrupt_output: table of corrupt partners
    """
    settings = recorded(locals())

    keys = common_keys(census)
    paths = by_key([*other_censuses, census], "operator")
    censuses = {name: (read_table(path, CENSUS), provenance_of(path)["template"]) for name, path in paths.items()}
    choice = Choice(train, eval, corrupt_seeds, seed)
    dataset_rows, corrupt = make_dataset(censuses, keys["operator"], choice)
    provenance = {
        **{name: provenance_of(census)[name] for name in ("model", "revision")},
        **settings,
        "corrupt": "across_operators" if len(censuses) > 1 else "within_operator",
        "distinct_answers": distinct_answers(dataset_rows),
    }
    write_table(corrupt, corrupt_output, CORRUPT, provenance, keys)
    write_table(dataset_rows, output, DATASET, provenance, keys)
