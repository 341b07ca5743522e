"""Whether the shared neurons do the same in every format, per (model, operator)."""

AGREEMENT = {
    table: [
        expand(
            f"<results>/{{model}}/shared/{{operator}}/{table}.parquet", operator=list(GRIDS), allow_missing=True
        ),
        -2,
    ]
    for table in ("agreement", "labelled", "activation_correlation")
}
FIGURES["heuristics"] = (
    "agreement",
    GRID_MODELS,
    {
        "heuristics": [HEURISTICS, -3, -2],
        **{table: AGREEMENT[table] for table in ("agreement", "labelled")},
    },
)
ANSWERS["agreement"] = GRID_MODELS, AGREEMENT
TABLES += expand(files_of(AGREEMENT), model=GRID_MODELS)


rule agreement:
    input:
        neurons="<results>/{model}/shared/{operator}/labelled_neurons.parquet",
        heuristics=every_format("<results>/{model}/{format}/{operator}/heuristics.parquet"),
        maps=every_format("<results>/{model}/{format}/{operator}/activation_maps.safetensors"),
    output:
        table="<results>/{model}/shared/{operator}/agreement.parquet",
        labelled="<results>/{model}/shared/{operator}/labelled.parquet",
        correlation="<results>/{model}/shared/{operator}/activation_correlation.parquet",
    log:
        "<results>/logs/agreement/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/agreement/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("agreement"),
        heuristics=lambda wildcards, input: keyed(input.heuristics, -3),
        maps=lambda wildcards, input: keyed(input.maps, -3),
        settings=settings("permutations", "seed"),
    resources:
        **table_job("agreement", mem_mb=2000),
    shell:
        "python -m form_invariance agreement --operator {wildcards.operator:q} --neurons {input.neurons:q}"
        " --heuristics {params.heuristics:q} --maps {params.maps:q} {params.settings:q} --output {output.table:q}"
        " --labelled-output {output.labelled:q} --correlation-output {output.correlation:q} 2> {log:q}"


rule agreements_all:
    input:
        expand(AGREEMENT["agreement"][0], model=MODELS),
    localrule: True
