"""Dataset: correctly answered pairs, split, with corrupt partners, per (model, format, operator)."""

TABLES += expand("<results>/{model}/{format}/{operator}/{table}.parquet", table=["dataset", "corrupt"], **CELLS)
# First of all that is ready: a run whose cells have too few right answers ends before the expensive jobs. It is no
# input of the datasets, since a new cell must re-run no other; and `ancient` would hide what else re-runs them.
TABLE_JOBS["preflight"] = {
    "inputs": {"census": [every_cell("<results>/{model}/{format}/{operator}/census.parquet"), -3, -2]},
    "outputs": {"output": "<results>/{model}/preflight.parquet"},
    "settings": settings("corrupt_seeds", "corrupt", "seed", train="train_prompts", eval="eval_prompts"),
    "resources": {"mem_mb": 1000, "minutes": 3},
    "priority": 3,
}


rule dataset:
    input:
        census="<results>/{model}/{format}/{operator}/census.parquet",
        # Corrupt partners may come from all operators.
        other_census=lambda wildcards: expand(
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
        output="<results>/{model}/{format}/{operator}/dataset.parquet",
        corrupt_output="<results>/{model}/{format}/{operator}/corrupt.parquet",
    log:
        "<results>/logs/dataset/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/dataset/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("dataset"),
        files=file_options(other_census=-2),
        settings=settings("corrupt_seeds", "seed", train="train_prompts", eval="eval_prompts"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        in_turn("dataset --operator {wildcards.operator:q} {params.files:q} {params.settings:q}")
