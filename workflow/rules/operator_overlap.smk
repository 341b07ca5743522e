"""The top k neurons of any two cells of a model compared by what differs between the cells."""

OPERATOR_OVERLAP = "<results>/{model}/shared/operator_overlap.parquet"
DIFFERING = "<results>/{model}/shared/differing.parquet"
FORMAT_CORRELATION = "<results>/{model}/shared/format_correlation.parquet"
FIGURES["overlap"] = Figure("overlap", MODELS, [*OVERLAP, *RELIABILITY, OPERATOR_OVERLAP])
FIGURES["differing"] = Figure("overlap", MODELS, [DIFFERING])
ANSWERS["overlap"] = Answer(MODELS, [*OVERLAP, *RELIABILITY, FORMAT_CORRELATION])
TARGETS += expand([OPERATOR_OVERLAP, DIFFERING, FORMAT_CORRELATION], model=MODELS)


rule operator_overlap:
    input:
        effects=every_operator(EFFECTS),
        variants=[
            f"<results>/{{model}}/{form}/{operator}/indirect_effects.safetensors" for form, operator in VARIANTS
        ],
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
    output:
        table=OPERATOR_OVERLAP,
        differing=DIFFERING,
        correlation=FORMAT_CORRELATION,
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
        **table_job("operator_overlap", mem_mb=4000),
    shell:
        "python -m form_invariance operator-overlap --effects {input.effects:q}"
        " --variant-effects {input.variants:q} --datasets {input.datasets:q} --corrupt-tables {input.corrupt:q} {params.settings:q}"
        " --output {output.table:q} --differing-output {output.differing:q}"
        " --correlation-output {output.correlation:q} 2> {log:q}"
