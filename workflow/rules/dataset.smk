"""Dataset: correctly answered pairs, split, with corrupt partners, per (model, format, operator)."""

TARGETS += expand("<results>/{model}/{format}/{operator}/{table}.parquet", table=["dataset", "corrupt"], **CELLS)
ANSWERS["dataset"] = every_cell("<results>/{model}/{format}/{operator}/dataset.parquet")
TARGETS += expand("<results>/{model}/preflight.parquet", model=MODELS)
# Operators from which another operator's dataset takes corrupt partners.
OTHERS = OPERATORS if config["corrupt"] == "across_operators" else []


# It runs before other jobs that are ready, so that a run with too few right answers ends before the expensive jobs.
# It is not an input of the datasets, because a new cell must not re-run other cells; `ancient` would also hide other
# reasons to re-run them.
rule preflight:
    input:
        censuses=CENSUS,
    output:
        "<results>/{model}/preflight.parquet",
    log:
        "<results>/logs/preflight/{model}.log",
    benchmark:
        "<results>/benchmarks/preflight/{model}.tsv"
    priority: 3
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("preflight"),
        settings=settings("corrupt_seeds", "corrupt", "seed", train="train_prompts", eval="eval_prompts"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance preflight --censuses {input.censuses:q} {params.settings:q} --output {output:q}"
        " 2> {log:q}"


rule dataset:
    input:
        census="<results>/{model}/{format}/{operator}/census.parquet",
        other_censuses=lambda wildcards: [
            f"<results>/{wildcards.model}/{wildcards.format}/{other}/census.parquet"
            for other in OTHERS
            if other != wildcards.operator
        ],
    output:
        table="<results>/{model}/{format}/{operator}/dataset.parquet",
        corrupt_output="<results>/{model}/{format}/{operator}/corrupt.parquet",
    log:
        "<results>/logs/dataset/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/dataset/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("dataset"),
        settings=settings("corrupt_seeds", "seed", train="train_prompts", eval="eval_prompts"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance dataset --census {input.census:q} --other-censuses {input.other_censuses:q}"
        " {params.settings:q} --output {output.table:q} --corrupt-output {output.corrupt_output:q}"
        " 2> {log:q}"
