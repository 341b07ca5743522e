"""Census of one cell."""

from pathlib import Path

from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import ModelOptions, Seed, recorded
from form_invariance.experiment.task_options import NO_TASK, TaskOptions, task_of, task_provenance
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.census.table import CENSUS
from form_invariance.tables.files import write_table


def census(
    *,
    model: ModelOptions,
    task: TaskOptions = NO_TASK,
    template: str,
    format: str,
    operator: str,
    model_name: str | None = None,
    pairs: int | None = None,
    seed: Seed,
    output: Path,
) -> None:
    """Run the model on a sample of the operand pool of one cell.

    Args:
        template: prompt with the fields {a} and {b}, or those of the table
        format: the format's name
        operator: the operator's name
        model_name: the model's name in the tables; default: --model
        pairs: problems in the uniform sample; default: the whole pool
        output: census table
    """
    settings = recorded(locals())

    loaded_task = task_of(task)
    decoder, tokenizer = load_model(model)
    table = take_census(decoder, tokenizer, template, operator, loaded_task, pairs, seed)
    provenance = {**settings, **task_provenance(task), "device": str(decoder.device)}
    keys = {"model": model_name or model.model, "format": format, "operator": operator}
    write_table(table, output, CENSUS, provenance, keys)
