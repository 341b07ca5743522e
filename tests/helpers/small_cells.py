"""One small cell of a model of the package, made by the commands."""

from replayed_run import run

MODEL = ("--model", "embedded:embedded-shared")


def write_prompts(
    folder, template="{a}+{b}=", operator="addition", expression="a + b", *, pairs=60, train, draws=1
):
    """Census, dataset (two eval prompts) and corrupt partners; returns the files of the cell by name.

    The name of the folder is the format's.
    """
    files = {name: str(folder / f"{name}.parquet") for name in ("census", "dataset", "corrupt", "attribution")}
    asked = ("--operator", operator, "--expression", expression, f"--template={template}", "--pairs", pairs)
    run("census", *MODEL, "--format", folder.name, *asked, "--output", files["census"])
    sizes = ("--train", train, "--eval", 2, "--corrupt-seeds", draws)
    outputs = ("--output", files["dataset"], "--corrupt-output", files["corrupt"])
    run("dataset", "--census", files["census"], *sizes, *outputs)
    return files


def attribute(files, candidates, model=MODEL):
    """Attributions of the train prompts."""
    train = ("--dataset", files["dataset"], "--corrupt-table", files["corrupt"])
    run("attribution", *model, *train, "--candidates", candidates, "--output", files["attribution"])
