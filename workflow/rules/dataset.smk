"""Dataset: correctly answered pairs, split, with corrupt partners, per (model, format, operator)."""

TABLES += expand("<results>/{model}/{format}/{operator}/{table}.parquet", table=["dataset", "corrupt"], **CELLS)
# First of all that is ready: a run whose cells have too few right answers ends before the expensive jobs. It is no
# input of the datasets, since a new cell must re-run no other; and `ancient` would hide what else re-runs them.
TABLE_JOBS["preflight"] = {
    "inputs": {"census": [every_cell("<results>/{model}/{format}/{operator}/census.parquet"), -3, -2]},
    "outputs": {"output": "<results>/{model}/preflight.parquet"},
    "settings": [
        *setting("train_prompts", "train"),
        *setting("eval_prompts", "eval"),
        *settings("corrupt_seeds", "corrupt", "seed"),
    ],
    "resources": {"mem_mb": 1000, "minutes": 3},
    "priority": 3,
}


rule dataset:
    input:
        census="<results>/{model}/{format}/{operator}/census.parquet",
        # Corrupt partners may come from all operators.
        others=lambda wildcards: expand(
            "<results>/{model}/{format}/{operator}/census.parquet",
            model=wildcards.model,
            format=wildcards.format,
            operator=[
                operator
                for operator in OPERATORS
                if config["corrupt"] == "across_operators" and operator != wildcards.operator
            ],
        ),
    output:
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        corrupt="<results>/{model}/{format}/{operator}/corrupt.parquet",
    log:
        "<results>/logs/dataset/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/dataset/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("dataset"),
        train=setting("train_prompts", "train"),
        eval=setting("eval_prompts", "eval"),
        others=lambda wildcards, input: ["--other-census", *keyed(input.others, -2)] if input.others else [],
        corrupt_seeds=setting("corrupt_seeds"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance dataset --operator {wildcards.operator:q}"
        " --census {input.census:q} {params.others:q} {params.train:q} {params.eval:q}"
        " {params.corrupt_seeds:q} {params.seed:q}"
        " --output {output.dataset:q} --corrupt-output {output.corrupt:q} 2> {log:q}"
