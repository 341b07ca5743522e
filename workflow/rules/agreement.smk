"""Whether the shared neurons follow the same heuristics in every format, per (model, operator)."""

AGREEMENT = {
    table: [
        expand(
            f"<results>/{{model}}/shared/{{operator}}/{table}.parquet", operator=list(GRIDS), allow_missing=True
        ),
        -2,
    ]
    for table in ("agreement", "labelled")
}
FIGURES["agreement heuristics"] = GRID_MODELS, {"heuristics": [HEURISTICS, -3, -2], **AGREEMENT}
ANSWERS["agreement"] = GRID_MODELS, AGREEMENT
TABLES += expand(
    "<results>/{model}/shared/{operator}/{table}.parquet", model=MODELS, operator=list(GRIDS), table=AGREEMENT
)


rule agreement:
    input:
        neurons="<results>/{model}/shared/{operator}/labelled_neurons.parquet",
        heuristics=every_format("<results>/{model}/{format}/{operator}/heuristics.parquet"),
    output:
        agreement="<results>/{model}/shared/{operator}/agreement.parquet",
        labelled="<results>/{model}/shared/{operator}/labelled.parquet",
    log:
        "<results>/logs/agreement/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/agreement/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("agreement"),
        heuristics=lambda wildcards, input: keyed(input.heuristics, -3),
        permutations=setting("permutations"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance agreement --operator {wildcards.operator:q}"
        " --heuristics {params.heuristics:q} --neurons {input.neurons:q}"
        " {params.permutations:q} {params.seed:q} --output {output.agreement:q}"
        " --labelled-output {output.labelled:q} 2> {log:q}"


rule agreements_all:
    input:
        expand(AGREEMENT["agreement"][0], model=MODELS),
    localrule: True
