"""The commands on a planted model, in the order and with the options that the rules give them."""

from itertools import permutations

from settings import complete

from form_invariance.cli import main
from form_invariance.stages.planted.construction import EXPRESSION, LIMITS, PLANTED, TEMPLATES

OPERATOR = "addition"
_TRAIN, _EVALUATION, _MEAN_PROMPTS, _PAIRS, _RESAMPLES = 40, 30, 300, 200, 200


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


def transfers(folder):
    """The files of transfer, by DONOR_to_TARGET."""
    directions = [f"{donor}_to_{target}" for donor, target in permutations(TEMPLATES, 2)]
    return {direction: folder / "transfer" / OPERATOR / f"{direction}.parquet" for direction in directions}


def run_stages(model, folder, seed, how=("--device", "cpu")):
    """Run every stage from the census to transfer.

    Args:
        model: the model's Hugging Face folder.
        folder: receives the tables, laid out as `results/MODEL` is.
        how: options that say where and in which precision the model runs.
    """
    on_model = ("--model", model, *how)
    seeded = ("--seed", seed)
    for name in TEMPLATES:
        _rank(on_model, folder, name, seeded)
    effects = [f"{name}={_effects(folder, name)}" for name in TEMPLATES]
    shared = overlap_of(folder).with_stem("circuit")
    run("circuit", "--effects", *effects, "--k", PLANTED, "--output", shared)
    outputs = ("--output", overlap_of(folder), "--reliability-output", overlap_of(folder).with_stem("reliability"))
    run("overlap", "--effects", *effects, "--k", PLANTED, "--bootstrap", _RESAMPLES, *seeded, *outputs)
    with_circuit = ("--circuit", shared, "--k", PLANTED)
    for name in TEMPLATES:
        _intervene(on_model, folder, name, with_circuit, seeded)
    _contrast(folder, seeded)
    each = {
        table: [f"{name}={cell(folder, name, table)}" for name in TEMPLATES] for table in ("census", "ranking")
    }
    means = [f"{name}={folder / name / 'mean_cache.safetensors'}" for name in TEMPLATES]
    by_pair = overlap_of(folder).with_stem("transfer_pairs")
    run(
        "transfer",
        *(*on_model, "--operator", OPERATOR, "--census", *each["census"], *with_circuit, *seeded),
        *("--exclude-train", *(cell(folder, name, "dataset") for name in TEMPLATES)),
        *("--rankings", *each["ranking"], "--mean-caches", *means, "--pairs", _PAIRS),
        *("--output-folder", folder / "transfer" / OPERATOR, "--pairs-output", by_pair),
    )
    moved = [f"transfer/{OPERATOR}/{direction}={path}" for direction, path in transfers(folder).items()]
    tables = ("--tables", *moved, f"transfer_pairs/{OPERATOR}={by_pair}", "--bootstrap", _RESAMPLES)
    run("transfer-contrasts", *tables, *seeded, "--output", transfer_contrasts_of(folder))


def contrasts_of(folder):
    """The file of the contrasts of all cells."""
    return folder / "shared/intervention_contrasts.parquet"


def _contrast(folder, seeded):
    """Circuits compared with their strongest controls, over the formats."""
    tables = {"--interventions": "interventions", "--by-prompt": "interventions_prompts"}
    given = [
        word
        for option, table in tables.items()
        for word in (option, *(f"{name}/{OPERATOR}={cell(folder, name, table)}" for name in TEMPLATES))
    ]
    run("intervention-contrasts", *given, "--bootstrap", _RESAMPLES, *seeded, "--output", contrasts_of(folder))


def _effects(folder, name):
    """The file of one format's exact indirect effects."""
    return cell(folder, name, "indirect_effects").with_suffix(".safetensors")


def _rank(on_model, folder, name, seeded):
    """Census, dataset, attribution, exact patching and ranking of one format."""
    of_operator = ("--operator", OPERATOR)
    found, chosen, corrupt = (cell(folder, name, table) for table in ("census", "dataset", "corrupt"))
    first = cell(folder, name, "attribution")
    limits = [word for key, value in vars(LIMITS).items() for word in (f"--{key.replace('_', '-')}", value)]
    problem = ("--template", TEMPLATES[name], *of_operator, "--expression", EXPRESSION, *limits)
    run("census", *on_model, *problem, *seeded, "--output", found)
    sizes = ("--train", _TRAIN, "--eval", _EVALUATION, "--corrupt-seeds", 1)
    outputs = ("--output", chosen, "--corrupt-output", corrupt)
    run("dataset", *of_operator, "--census", found, *sizes, *seeded, *outputs)
    train = ("--dataset", chosen, "--corrupt-table", corrupt)
    run("attribution", *on_model, *train, "--output", first)
    run("patching", *on_model, *train, "--attribution", first, "--output", _effects(folder, name))
    inputs = ("--attribution", first, "--effects", _effects(folder, name))
    run("ranking", *inputs, "--output", cell(folder, name, "ranking"))


def _intervene(on_model, folder, name, with_circuit, seeded):
    """Mean cache, keep-only and knockout of one format."""
    means = folder / name / "mean_cache.safetensors"
    datasets = [cell(folder, other, "dataset") for other in TEMPLATES]
    sample = ("--census", f"{OPERATOR}={cell(folder, name, 'census')}", "--exclude", *datasets)
    run("mean-cache", *on_model, *sample, "--prompts", _MEAN_PROMPTS, *seeded, "--output", means)
    inputs = ("--dataset", cell(folder, name, "dataset"), "--ranking", cell(folder, name, "ranking"))
    settings = ("--mean-cache", means, *with_circuit, "--bootstrap", _RESAMPLES)
    outputs = ("--output", cell(folder, name, "interventions"))
    by_prompt = ("--prompts-output", cell(folder, name, "interventions_prompts"))
    run("interventions", *on_model, *inputs, *settings, *seeded, *outputs, *by_prompt)
