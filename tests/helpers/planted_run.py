"""The commands on a model in the order and with the options that the rules give them, by default a planted one."""

from itertools import permutations
from typing import NamedTuple

from settings import complete

from form_invariance.cli import main
from form_invariance.stages.planted.construction import EXPRESSION, LIMITS, PLANTED, TEMPLATES

OPERATOR = "addition"
_PAIRS, _RESAMPLES = 200, 200


class Grid(NamedTuple):
    """One operator in some formats."""

    templates: dict
    """One a format."""
    problem: tuple
    """The options that say what is asked."""
    k: int
    train: int = 40
    evaluation: int = 30
    mean_prompts: int = 300


def expression(text, limits, *more):
    """The options of an expression."""
    limits = [word for key, value in vars(limits).items() for word in (f"--{key.replace('_', '-')}", value)]
    return ("--expression", text, *limits, *more)


PLANTED_GRID = Grid(TEMPLATES, expression(EXPRESSION, LIMITS), PLANTED)


def run(*words):
    assert main(complete(words)) == 0


def cell(folder, name, table):
    """The file of a table of one format."""
    return folder / name / OPERATOR / f"{table}.parquet"


def overlap_of(folder):
    """The file of the formats' overlap."""
    return folder / "shared" / OPERATOR / "overlap.parquet"


def transfer_contrasts_of(folder):
    """The file of the contrasts of transfer."""
    return folder / "shared" / "transfer_contrasts.parquet"


def transfers(folder, formats=TEMPLATES):
    """The files of transfer, by DONOR_to_TARGET."""
    directions = [f"{donor}_to_{target}" for donor, target in permutations(formats, 2)]
    return {direction: folder / "transfer" / OPERATOR / f"{direction}.parquet" for direction in directions}


def run_stages(model, folder, seed, how=("--device", "cpu"), grid=PLANTED_GRID):
    """Run every stage from the census to transfer.

    Args:
        model: the model's Hugging Face folder.
        folder: receives the tables, laid out as `results/MODEL` is.
        how: options that say where and in which precision the model runs.
    """
    on_model = ("--model", model, *how)
    seeded = ("--seed", seed)
    for name in grid.templates:
        _rank(on_model, folder, name, seeded, grid)
    effects = [f"{name}={_effects(folder, name)}" for name in grid.templates]
    shared = overlap_of(folder).with_stem("circuit")
    run("circuit", "--effects", *effects, "--k", grid.k, "--output", shared)
    outputs = ("--output", overlap_of(folder), "--reliability-output", overlap_of(folder).with_stem("reliability"))
    run("overlap", "--effects", *effects, "--k", grid.k, "--bootstrap", _RESAMPLES, *seeded, *outputs)
    with_circuit = ("--circuit", shared, "--k", grid.k)
    for name in grid.templates:
        _intervene(on_model, folder, name, with_circuit, seeded, grid)
    _contrast(folder, seeded, grid)
    each = {
        table: [f"{name}={cell(folder, name, table)}" for name in grid.templates]
        for table in ("census", "ranking")
    }
    means = [f"{name}={folder / name / 'mean_cache.safetensors'}" for name in grid.templates]
    by_pair = overlap_of(folder).with_stem("transfer_pairs")
    run(
        "transfer",
        *(*on_model, "--operator", OPERATOR, "--census", *each["census"], *with_circuit, *seeded),
        *("--exclude-train", *(cell(folder, name, "dataset") for name in grid.templates)),
        *("--rankings", *each["ranking"], "--mean-caches", *means, "--pairs", _PAIRS),
        *("--output-folder", folder / "transfer" / OPERATOR, "--pairs-output", by_pair),
    )
    moved = [
        f"transfer/{OPERATOR}/{direction}={path}" for direction, path in transfers(folder, grid.templates).items()
    ]
    tables = ("--tables", *moved, f"transfer_pairs/{OPERATOR}={by_pair}", "--bootstrap", _RESAMPLES)
    run("transfer-contrasts", *tables, *seeded, "--output", transfer_contrasts_of(folder))


def contrasts_of(folder):
    """The file of the contrasts of all cells."""
    return folder / "shared/intervention_contrasts.parquet"


def _contrast(folder, seeded, grid):
    """Circuits compared with their strongest controls, over the formats."""
    tables = {"--interventions": "interventions", "--by-prompt": "interventions_prompts"}
    given = [
        word
        for option, table in tables.items()
        for word in (option, *(f"{name}/{OPERATOR}={cell(folder, name, table)}" for name in grid.templates))
    ]
    run("intervention-contrasts", *given, "--bootstrap", _RESAMPLES, *seeded, "--output", contrasts_of(folder))


def _effects(folder, name):
    """The file of one format's exact indirect effects."""
    return cell(folder, name, "indirect_effects").with_suffix(".safetensors")


def _rank(on_model, folder, name, seeded, grid):
    """Census, dataset, attribution, exact patching and ranking of one format."""
    of_operator = ("--operator", OPERATOR)
    found, chosen, corrupt = (cell(folder, name, table) for table in ("census", "dataset", "corrupt"))
    first = cell(folder, name, "attribution")
    problem = ("--template", grid.templates[name], *of_operator, *grid.problem)
    run("census", *on_model, *problem, *seeded, "--output", found)
    sizes = ("--train", grid.train, "--eval", grid.evaluation, "--corrupt-seeds", 1)
    outputs = ("--output", chosen, "--corrupt-output", corrupt)
    run("dataset", *of_operator, "--census", found, *sizes, *seeded, *outputs)
    train = ("--dataset", chosen, "--corrupt-table", corrupt)
    run("attribution", *on_model, *train, "--output", first)
    run("patching", *on_model, *train, "--attribution", first, "--output", _effects(folder, name))
    inputs = ("--attribution", first, "--effects", _effects(folder, name))
    run("ranking", *inputs, "--output", cell(folder, name, "ranking"))


def _intervene(on_model, folder, name, with_circuit, seeded, grid):
    """Mean cache, keep-only and knockout of one format."""
    means = folder / name / "mean_cache.safetensors"
    datasets = [cell(folder, other, "dataset") for other in grid.templates]
    sample = ("--census", f"{OPERATOR}={cell(folder, name, 'census')}", "--exclude", *datasets)
    run("mean-cache", *on_model, *sample, "--prompts", grid.mean_prompts, *seeded, "--output", means)
    inputs = ("--dataset", cell(folder, name, "dataset"), "--ranking", cell(folder, name, "ranking"))
    settings = ("--mean-cache", means, *with_circuit, "--bootstrap", _RESAMPLES)
    outputs = ("--output", cell(folder, name, "interventions"))
    by_prompt = ("--prompts-output", cell(folder, name, "interventions_prompts"))
    run("interventions", *on_model, *inputs, *settings, *seeded, *outputs, *by_prompt)
