"""What transfer corrects beyond controls, over the cells of a model."""

TRANSFER_CONTRASTS = {"transfer_contrasts": ["<results>/{model}/shared/transfer_contrasts.parquet"]}
FIGURES["transfer_contrasts"] = "transfer", MODELS, TRANSFER_CONTRASTS
ANSWERS["transfer"] = MODELS, TRANSFER | TRANSFER_CONTRASTS
TABLES += expand(files_of(TRANSFER_CONTRASTS), model=MODELS)


rule transfer_contrasts:
    input:
        transfer=TRANSFERS,
        transfer_pairs=TRANSFER_PAIRS,
    output:
        "<results>/{model}/shared/transfer_contrasts.parquet",
    log:
        "<results>/logs/transfer_contrasts/{model}.log",
    benchmark:
        "<results>/benchmarks/transfer_contrasts/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("transfer-contrasts"),
        tables=lambda wildcards, input: table_options({**TRANSFER, "transfer_pairs": [TRANSFER_PAIRS, -2]}, input),
        settings=settings("bootstrap", "seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance transfer-contrasts --tables {params.tables:q} {params.settings:q}"
        " --output {output:q} 2> {log:q}"
