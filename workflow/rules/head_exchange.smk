"""Exchange of single heads in the layer where states arrive, per (model, operator)."""

HEADS = every_operator("<results>/{model}/shared/{operator}/heads.parquet")
FIGURES["heads"] = Figure("residual_exchange", HEADS)
ANSWERS["residual_exchange"] += HEADS
TARGETS += expand(HEADS, model=MODELS)


rule head_exchange:
    input:
        model_files="<results>/{model}/model_files.parquet",
        datasets=every_format("<results>/{model}/{format}/{operator}/dataset.parquet"),
        exchanges=every_format("<results>/{model}/{format}/{operator}/residual_exchange.parquet"),
    output:
        "<results>/{model}/shared/{operator}/heads.parquet",
    log:
        "<results>/logs/head_exchange/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/head_exchange/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("head-exchange"),
        model=model_options,
        settings=settings("bootstrap", "seed"),
    resources:
        **model_job("head_exchange"),
    shell:
        "python -m form_invariance head-exchange {params.model:q} --model-files {input.model_files:q}"
        " --datasets {input.datasets:q} --exchanges {input.exchanges:q} {params.settings:q}"
        " --output {output:q} 2> {log:q}"
