"""The top k neurons of any two cells of a model compared by what differs between the cells."""

ACROSS = {
    table: [f"<results>/{{model}}/shared/{table}.parquet"]
    for table in ("operator_overlap", "differing", "format_correlation")
}
FIGURES["overlap"] = "overlap", MODELS, {**OVERLAP, "operator_overlap": ACROSS["operator_overlap"]}
FIGURES["differing"] = "overlap", MODELS, {"differing": ACROSS["differing"]}
ANSWERS["overlap"] = MODELS, {**OVERLAP, "format_correlation": ACROSS["format_correlation"]}
TABLES += expand(files_of(ACROSS), model=MODELS)


rule operator_overlap:
    input:
        effects=every_operator(EFFECTS),
        variants=[
            f"<results>/{{model}}/{form}/{operator}/indirect_effects.safetensors" for form, operator in VARIANTS
        ],
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
    output:
        table="<results>/{model}/shared/operator_overlap.parquet",
        differing="<results>/{model}/shared/differing.parquet",
        correlation="<results>/{model}/shared/format_correlation.parquet",
    log:
        "<results>/logs/operator_overlap/{model}.log",
    benchmark:
        "<results>/benchmarks/operator_overlap/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("operator-overlap"),
        effects=lambda wildcards, input: keyed(input.effects, *CELL),
        variants=lambda wildcards, input: (
            ["--variant-effects", *keyed(input.variants, *CELL)] if input.variants else []
        ),
        datasets=lambda wildcards, input: keyed(input.datasets, *CELL),
        corrupt=lambda wildcards, input: keyed(input.corrupt, *CELL),
        settings=settings("k", "bootstrap", "membership", "seed"),
    resources:
        **table_job("operator_overlap", mem_mb=4000),
    shell:
        "python -m form_invariance operator-overlap --effects {params.effects:q} {params.variants:q}"
        " --datasets {params.datasets:q} --corrupt-tables {params.corrupt:q} {params.settings:q}"
        " --output {output.table:q} --differing-output {output.differing:q}"
        " --correlation-output {output.correlation:q} 2> {log:q}"
