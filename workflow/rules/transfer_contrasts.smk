"""What transfer corrects beyond controls, over the cells of a model."""

TRANSFER_CONTRASTS = "<results>/{model}/shared/transfer_contrasts.parquet"
FIGURES["transfer_contrasts"] = Figure("transfer", MODELS, [TRANSFER_CONTRASTS])
ANSWERS["transfer"] = Answer(MODELS, [*TRANSFERS, TRANSFER_CONTRASTS])
TARGETS += expand(TRANSFER_CONTRASTS, model=MODELS)


rule transfer_contrasts:
    input:
        TRANSFERS,
        TRANSFER_PAIRS,
    output:
        TRANSFER_CONTRASTS,
    log:
        "<results>/logs/transfer_contrasts/{model}.log",
    benchmark:
        "<results>/benchmarks/transfer_contrasts/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("transfer-contrasts"),
        settings=settings("bootstrap", "seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance transfer-contrasts --tables {input:q} {params.settings:q}"
        " --output {output:q} 2> {log:q}"
