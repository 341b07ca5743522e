"""The paper's tables for any models. The paper's own three have its numbers next to ours (method, section 10)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from form_invariance.stages.probe.summary import curve, of_all_formats, peak
from form_invariance.tables.columns import ALL

PAPER_MODELS = {
    "meta-llama-3-8b": "Llama-3-8B",
    "llama-3-8b": "Llama-3-8B",
    "llama-3.2-3b": "Llama-3.2-3B",
    "llama-3.2-1b": "Llama-3.2-1B",
}
"""The paper's models by the last part of a hub id or of a folder."""

CAPTIONS = {
    "census": "Right answers on a uniform sample of each operand pool.",
    "probe": "Linear probes of the answer at the last token: peak over layers, and onset, the first layer with a "
    "test accuracy above one half. Majority and shuffled are baselines in the peak layer.",
    "agreement": "Agreement of heuristic families across formats, per operator, over the neurons labelled in "
    "every format unless a column says otherwise.",
    "heuristic_summary": "Agreement of heuristic families across formats, per operator and on average.",
    "significance": "Agreement of heuristic families against permuted family sets. Exact match is over neurons "
    "labelled in every format, the pairwise Jaccard over neurons labelled in any.",
    "families": "How often each heuristic family occurs among the shared neurons: labels, and neurons with one.",
}


def read_numbers() -> pd.DataFrame:
    """Every number in the paper's tables.

    Returns:
        Columns table (its LaTeX label), model, format, operator, family, column, printed (as in the paper),
        value (float64; a bound where the paper prints one).
    """
    numbers = pd.read_csv(Path(__file__).parent / "numbers.csv", keep_default_na=False)
    return numbers.astype({"value": "float64"})


def paper_model(source: str) -> str:
    """The paper's name of a model by its source; empty for a model that the paper does not have."""
    return PAPER_MODELS.get(source.rstrip("/").split("/")[-1].lower(), "")


def compared_with_paper(
    table: pd.DataFrame,
    labels: Sequence[str],
    keys: Sequence[str],
    columns: Mapping[str, str],
    sources: Mapping[str, str],
) -> pd.DataFrame:
    """Add `COLUMN paper` and `COLUMN difference` behind each column that the paper prints for these rows.

    Args:
        labels: labels of the paper's tables.
        keys: columns of `table` that, with the model, identify a row of the paper.
        columns: the paper's column, by our column.
        sources: each model's source, by its name in `table`.
    """
    numbers = read_numbers()
    numbers = numbers[numbers["table"].isin(labels)]
    paper_values = numbers.set_index(["model", *keys, "column"])["value"]
    rows = [
        [paper_model(sources[model]), *rest]
        for model, *rest in table[["model", *keys]].itertuples(index=False, name=None)
    ]
    result = table.copy()
    for ours, theirs in columns.items():
        values = [paper_values.get((*row, theirs), float("nan")) for row in rows]
        if pd.Series(values).notna().any():
            position = list(result.columns).index(ours) + 1
            result.insert(position, f"{ours} paper", values)
            result.insert(position + 1, f"{ours} difference", result[ours] - result[f"{ours} paper"])
    return result


def census(table: pd.DataFrame, sources: Mapping[str, str]) -> pd.DataFrame:
    """Accuracy of every cell on the uniform sample of its operand pool (Table correct_census)."""
    cells = table[table["uniform"]].groupby(["model", "format", "operator"], sort=False)["correct"]
    result = cells.agg(pairs="size", correct="sum").reset_index()
    result["accuracy %"] = 100 * result["correct"] / result["pairs"]
    printed = {"correct": "multiplication_correct", "accuracy %": "multiplication_accuracy_percent"}
    return _of_rows(result, result["operator"] == "multiplication", ["tab:correct_census"], printed, sources)


def probe(table: pd.DataFrame, sources: Mapping[str, str]) -> pd.DataFrame:
    """Peak and onset of each probe, over all operators and for each of them (Table probe_results)."""
    rows = []
    for (model, name), part in table.groupby(["model", "format"], sort=False):
        if name == ALL:
            # The probes within a format have their own tables, with more prompts.
            part = of_all_formats(part)
        for operator in part["operator"].unique():
            layer_curve = curve(part, operator)
            probe_peak = peak(layer_curve)
            best = layer_curve[layer_curve["layer"] == probe_peak.layer].iloc[0]
            rows.append(
                {
                    "model": model,
                    "format": "all formats" if name == ALL else name,
                    "operator": operator,
                    "prompts": int(best["train_prompts"] + best["test_prompts"]),
                    "unique answers": int(best["answers"]),
                    "peak accuracy": probe_peak.accuracy,
                    "peak layer": probe_peak.layer,
                    "onset layer": float("nan") if probe_peak.onset is None else float(probe_peak.onset),
                    "majority": float(best["majority"]),
                    "shuffled": float(best["shuffled"]),
                }
            )
    result = pd.DataFrame(rows)
    compared = ("prompts", "unique answers", "peak accuracy", "peak layer", "onset layer")
    printed = {name: name.replace(" ", "_") for name in compared}
    return _of_rows(result, result["operator"] == ALL, ["tab:probe_results"], printed, sources)


def _of_rows(
    table: pd.DataFrame,
    rows: pd.Series,
    labels: Sequence[str],
    printed: Mapping[str, str],
    sources: Mapping[str, str],
) -> pd.DataFrame:
    """Add the paper's columns, which are per format, to some rows of a table."""
    compared = compared_with_paper(table[rows], labels, ["format"], printed, sources)
    return table.join(compared[[column for column in compared.columns if column not in table.columns]])


def agreement(table: pd.DataFrame, labelled: pd.DataFrame, sources: Mapping[str, str]) -> pd.DataFrame:
    """Agreement of the formats' families per operator (Table app_detailed_heuristics).

    The paper's columns are over the neurons labelled in every format; `exact of shared %` is over all shared ones.
    """
    observed_rows = table[(table["activations"] == "observed") & (table["scope"] == "all")]
    counts = labelled[labelled["activations"] == "observed"]
    rows = []
    for mode in ("reference", "strict"):
        for (model, operator), part in observed_rows[observed_rows["mode"] == mode].groupby(
            ["model", "operator"], sort=False
        ):
            observed = part.set_index(["over", "statistic"])["observed"]
            of_cell = (counts[["model", "operator", "mode"]] == [model, operator, mode]).all(axis=1)
            times = counts[of_cell].set_index("formats")["neurons"]
            rows.append(
                {
                    "model": model,
                    "mode": mode,
                    "operator": operator,
                    "shared": int(times.sum()),
                    "labelled": int(times.iloc[-1]),
                    **{f"in {number} formats": int(value) for number, value in times.items()},
                    "common %": 100 * observed["all", "common"],
                    "exact %": 100 * observed["all", "exact"],
                    "pair Jaccard": observed["all", "pair_jaccard"],
                    "three-way Jaccard": observed["all", "three_way_jaccard"],
                    "exact of shared %": 100 * observed["shared", "exact"],
                    "pair Jaccard of labelled in any": observed["any", "pair_jaccard"],
                }
            )
    printed = {
        "shared": "shared",
        "labelled": "labelled",
        "common %": "common_percent",
        "exact %": "exact_percent",
        "pair Jaccard": "pair_jaccard",
        "three-way Jaccard": "three_way_jaccard",
    }
    result = pd.DataFrame(rows).sort_values(["model", "mode"], kind="stable", ignore_index=True)
    return compared_with_paper(result, ["tab:app_detailed_heuristics"], ["operator"], printed, sources)


def summary(agreement_rows: pd.DataFrame, sources: Mapping[str, str]) -> pd.DataFrame:
    """Exact match and Jaccards per operator, and their mean over operators (Table heuristic_summary)."""
    values = ["exact %", "pair Jaccard", "three-way Jaccard"]
    rows = agreement_rows[["model", "mode", "operator", *values]]
    means = rows.groupby(["model", "mode"], as_index=False, sort=False)[values].mean().assign(operator="average")
    both = pd.concat([rows, means], ignore_index=True)[["model", "mode", "operator", *values]]
    both = both.sort_values(["model", "mode"], kind="stable", ignore_index=True)
    printed = dict(zip(values, ["exact_percent", "pair_jaccard", "three_way_jaccard"], strict=True))
    return compared_with_paper(both, ["tab:heuristic_summary"], ["operator"], printed, sources)


def significance(table: pd.DataFrame, sources: Mapping[str, str]) -> pd.DataFrame:
    """Observed agreement against permuted family sets (Table heuristic_significance).

    Exact match is over the neurons labelled in every format; the pairwise Jaccard over those labelled in
    any, which fits the paper's figures (deduced). `shuffled` rows are of shuffled activations; `within
    layer` permutes within each layer alone.
    """
    measures = {"exact": ("exact", "all"), "pair Jaccard of labelled in any": ("pair_jaccard", "any")}
    columns = {"": "observed", " null": "null_mean", " null max": "null_max", " p": "p"}
    rows = []
    for (model, operator), operator_rows in table.groupby(["model", "operator"], sort=False):
        for (mode, activations, scope), part in operator_rows.groupby(["mode", "activations", "scope"], sort=True):
            row = {"model": model, "mode": mode, "activations": activations, "operator": operator}
            row["null"] = "within layer" if scope == "layer" else "all neurons"
            for label, (statistic, over) in measures.items():
                statistic_row = part[(part["statistic"] == statistic) & (part["over"] == over)].iloc[0]
                row |= {f"{label}{ours}": statistic_row[column] for ours, column in columns.items()}
            rows.append(row)
    result = pd.DataFrame(rows)
    printed = {
        f"{label}{ours}": f"{statistic}_{'p_below' if column == 'p' else column}"
        for label, (statistic, _) in measures.items()
        for ours, column in columns.items()
    }
    return compared_with_paper(result, ["tab:heuristic_significance"], ["operator"], printed, sources)


def families(table: pd.DataFrame, sources: Mapping[str, str]) -> pd.DataFrame:
    """How often each family occurs (Tables dist_*): labels, and neurons with at least one."""
    rows = []
    observed = table[table["label"] & (table["activations"] == "observed")]
    for (model, name, operator), cell_rows in observed.groupby(["model", "format", "operator"], sort=False):
        for (mode, family), part in cell_rows.groupby(["mode", "family"]):
            neurons = len(part[["layer", "neuron"]].drop_duplicates())
            rows.append((model, mode, operator, family, name, len(part), neurons))
    columns = ["model", "mode", "operator", "family", "format", "labels", "neurons"]
    result = pd.DataFrame(rows, columns=columns)
    labels = ["tab:dist_llama3_8b", "tab:dist_llama32_3b", "tab:dist_llama32_1b"]
    return compared_with_paper(result, labels, ["operator", "family", "format"], {"labels": "labels"}, sources)
