"""The fast engine against TransformerLens, on a few prompts of a model, in one operator of each format."""

ENGINE_CHECK = "<results>/{model}/engine_check.parquet"
ANSWERS["engine_check"] = [ENGINE_CHECK]
TARGETS += expand(ENGINE_CHECK, model=MODELS)
# Each format with another operator, as long as there are operators.
CHECKED_CELLS = [f"{name}/{OPERATORS[n % len(OPERATORS)]}" for n, name in enumerate(FORMATS)]
every_checked_cell = partial(expand, cell=CHECKED_CELLS, allow_missing=True)


rule engine_check:
    input:
        model_files="<results>/{model}/model_files.parquet",
        datasets=every_checked_cell("<results>/{model}/{cell}/dataset.parquet"),
        corrupt_tables=every_checked_cell("<results>/{model}/{cell}/corrupt.parquet"),
        attributions=every_checked_cell("<results>/{model}/{cell}/attribution.parquet"),
        format_mean_caches=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
    output:
        ENGINE_CHECK,
    log:
        "<results>/logs/engine_check/{model}.log",
    benchmark:
        "<results>/benchmarks/engine_check/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("engine-check"),
        model=model_options,
        prompts=option("prompts", 2),
    resources:
        **model_job("engine_check"),
    shell:
        "python -m form_invariance engine-check {params.model:q} --model-files {input.model_files:q}"
        " --datasets {input.datasets:q} --corrupt-tables {input.corrupt_tables:q}"
        " --attributions {input.attributions:q} --format-mean-caches {input.format_mean_caches:q}"
        " {params.prompts:q} --output {output:q} 2> {log:q}"
