"""Overlap of the top k neurons: of formats per (model, operator), and of any two cells of a model."""

OVERLAP = every_operator("<results>/{model}/shared/{operator}/overlap.parquet")
RELIABILITY = every_operator("<results>/{model}/shared/{operator}/reliability.parquet")
OPERATOR_OVERLAP = "<results>/{model}/shared/operator_overlap.parquet"
DIFFERING = "<results>/{model}/shared/differing.parquet"
FORMAT_CORRELATION = "<results>/{model}/shared/format_correlation.parquet"
FIGURES["overlap"] = Figure("overlap", [*OVERLAP, *RELIABILITY, OPERATOR_OVERLAP])
FIGURES["differing"] = Figure("overlap", [DIFFERING])
ANSWERS["overlap"] = [*OVERLAP, *RELIABILITY, FORMAT_CORRELATION]
TARGETS += expand([*OVERLAP, *RELIABILITY, OPERATOR_OVERLAP, DIFFERING, FORMAT_CORRELATION], model=MODELS)


rule overlap:
    input:
        effects=EFFECTS,
    output:
        table="<results>/{model}/shared/{operator}/overlap.parquet",
        reliability_output="<results>/{model}/shared/{operator}/reliability.parquet",
    log:
        "<results>/logs/overlap/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/overlap/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("overlap"),
        settings=settings("k", "bootstrap", "membership", "seed"),
    resources:
        **table_job(mem_mb=4000, minutes=30),
    shell:
        "python -m form_invariance overlap --effects {input.effects:q} {params.settings:q}"
        " --output {output.table:q} --reliability-output {output.reliability_output:q} 2> {log:q}"


rule operator_overlap:
    input:
        effects=every_operator(EFFECTS),
        variant_effects=[
            f"<results>/{{model}}/{form}/{operator}/indirect_effects.safetensors" for form, operator in VARIANTS
        ],
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt_tables=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
    output:
        table=OPERATOR_OVERLAP,
        differing_output=DIFFERING,
        correlation_output=FORMAT_CORRELATION,
    log:
        "<results>/logs/operator_overlap/{model}.log",
    benchmark:
        "<results>/benchmarks/operator_overlap/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("operator-overlap"),
        settings=settings("k", "bootstrap", "membership", "seed"),
    resources:
        **table_job(mem_mb=4000, minutes=60),
    shell:
        "python -m form_invariance operator-overlap --effects {input.effects:q}"
        " --variant-effects {input.variant_effects:q} --datasets {input.datasets:q}"
        " --corrupt-tables {input.corrupt_tables:q} {params.settings:q}"
        " --output {output.table:q} --differing-output {output.differing_output:q}"
        " --correlation-output {output.correlation_output:q} 2> {log:q}"
