"""How far top-k neurons overlap: of the formats of each operator, of the operators of each format, of any two cells."""

OVERLAP = {
    table: [every_operator(f"<results>/{{model}}/shared/{{operator}}/{table}.parquet"), -2]
    for table in ("overlap", "reliability")
}
ACROSS = {
    table: [f"<results>/{{model}}/shared/{table}.parquet"]
    for table in ("operator_overlap", "differing", "format_correlation")
}
FIGURES["overlap"] = "overlap", MODELS, {**OVERLAP, "operator_overlap": ACROSS["operator_overlap"]}
FIGURES["differing"] = "overlap", MODELS, {"differing": ACROSS["differing"]}
ANSWERS["overlap"] = MODELS, {**OVERLAP, "format_correlation": ACROSS["format_correlation"]}
TABLES += expand(files_of({**OVERLAP, **ACROSS}), model=MODELS)


rule overlap:
    input:
        effects=EFFECTS,
    output:
        table="<results>/{model}/shared/{operator}/overlap.parquet",
        reliability="<results>/{model}/shared/{operator}/reliability.parquet",
    log:
        "<results>/logs/overlap/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/overlap/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("overlap"),
        effects=lambda wildcards, input: keyed(input.effects, -3),
        settings=settings("k", "bootstrap", "membership", "seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance overlap --effects {params.effects:q} {params.settings:q}"
        " --output {output.table:q} --reliability-output {output.reliability:q} 2> {log:q}"


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
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance operator-overlap --effects {params.effects:q} {params.variants:q}"
        " --datasets {params.datasets:q} --corrupt-tables {params.corrupt:q} {params.settings:q}"
        " --output {output.table:q} --differing-output {output.differing:q}"
        " --correlation-output {output.correlation:q} 2> {log:q}"
