"""Warnings of verdicts that will be undefined, or left to chance, whatever the model answers."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.experiment.contrasts.verdicts import FEWEST_PAIRS
from form_invariance.experiment.membership import most_shown
from form_invariance.model.sizes import read_sizes
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.configured import task_of
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import TableTask, Task, pool, stated, targets
from form_invariance.workflow.model_checks import known_folder
from form_invariance.workflow.rule_options import dose_sizes


def undefined_verdicts(config: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each key of a checked configuration that leaves verdicts undefined or to chance: which, why,
    and what would be right.
    """
    for key in ("random_seeds", "matched_seeds"):
        if config[key] == 1:
            yield (
                f"config key {key}: a control with one draw has no interval, so a verdict is undefined wherever "
                "this control is the strongest; write 2 or more, for narrow intervals 5"
            )
    folders = [known_folder(model) for model in config["models"].values()]
    ranked = min([config["candidates"], *(read_sizes(folder).d_mlp for folder in folders if folder)])
    if (shown := config["k_shown"]) > (most := most_shown(ranked)):
        yield (
            f"config key k_shown: two circuits with {shown} of the {ranked} ranked neurons in a layer overlap by "
            f"chance; choose a k up to {most}, or raise candidates if the layers have more neurons"
        )
    measured = dose_sizes(config)
    if dropped := [size for size in config["best_k"] if size not in measured]:
        yield (
            f"config key best_k: {', '.join(map(str, dropped))} above half of candidates ({config['candidates']}) "
            "are left out, because controls of equal norm are candidates outside the best; raise candidates"
        )
    if len(config["operators"]) == 1:
        yield (
            f"config key operators: with one operator the verdict {QUESTIONS['specific'].label!r} is "
            f"undefined, and {QUESTIONS['same'].label!r} compares with chance alone; add an operator"
        )
    tasks = {name: task_of(operator, config["operands"]) for name, operator in config["operators"].items()}
    formats = len(config["formats"])
    most = formats * (config["train_prompts"] + config["eval_prompts"])
    for name, task in tasks.items():
        if isinstance(task, TableTask) and (rows := len(pool(task))) <= most:
            yield (
                f"config key operators.{name}: the table has {rows} rows, but the formats take up to {most} train "
                "and eval prompts, so perhaps none is left for the means that replace ablated activations; lower "
                f"train_prompts + eval_prompts to {(rows - 1) // formats}, or add rows"
            )
    if not all(isinstance(task, TableTask) for task in tasks.values()):
        return
    for name, model in config["models"].items():
        folder = known_folder(model)
        if folder is None or not (folder / "tokenizer.json").is_file():
            continue
        tokenizer = load_tokenizer(folder)
        answers = [_answers(task, config, operator, tokenizer) for operator, task in tasks.items()]
        shared, rows = sum(map(_shared, answers)), sum(map(len, answers))
        if shared < FEWEST_PAIRS:
            yield (
                f"config key operators: {shared} of {rows} rows have an answer that begins with the same token as "
                f"another row's (tokenizer of {name}). The verdict {QUESTIONS['beyond_the_answer'].label!r} needs "
                f"{FEWEST_PAIRS} comparisons of such rows and will be undefined; add rows with answers that the "
                "table already has"
            )
        texts = [(text, tokenizer.text(token).strip()) for of_task in answers for text, token in of_task]
        if longer := [(text, first) for text, first in texts if text != first]:
            text, first = longer[0]
            yield (
                f"config key operators: {len(longer)} of {rows} answers have several tokens, and only the first "
                f"is asked, for instance {first!r} of {text!r} (tokenizer of {name}): another answer that begins "
                "with this token counts as right; write shorter answers if that is not intended"
            )


def _shared(answers: Sequence[tuple[str, int]]) -> int:
    """Rows whose answer begins with the same token as another row's."""
    counts = Counter(token for _, token in answers)
    return sum(counts[token] > 1 for _, token in answers)


def _answers(
    task: Task, config: Mapping[str, Any], operator: str, tokenizer: PromptTokenizer
) -> list[tuple[str, int]]:
    """Text and first token of the answer of each row of a table."""
    template = next(iter(config["formats"].values()))["templates"][operator]
    problems = stated(task, pool(task))
    tokens = targets(task, tokenizer, template, problems, f"operators.{operator}")[1].tolist()
    return list(zip(problems["target"].astype(str), tokens, strict=True))
