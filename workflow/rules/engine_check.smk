"""The fast engine against TransformerLens, on a few prompts of every cell of a model."""

ENGINE_CHECK = ["<results>/{model}/engine_check.parquet"]
ANSWERS["engine_check"] = MODELS, {"engine_check": ENGINE_CHECK}
TABLES += expand(ENGINE_CHECK, model=MODELS)


rule engine_check:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt_table=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
        attribution=every_cell("<results>/{model}/{format}/{operator}/attribution.parquet"),
        mean_cache=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
    output:
        output=ENGINE_CHECK,
    log:
        "<results>/logs/engine_check/{model}.log",
    benchmark:
        "<results>/benchmarks/engine_check/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("engine-check"),
        model=model_options,
        files=run_files(dataset=CELL, corrupt_table=CELL, attribution=CELL, mean_cache=-2),
        prompts=option("prompts", 2),
    resources:
        **model_job(minutes=10),
    shell:
        in_turn("engine-check {params.model:q} {params.files:q} {params.prompts:q}")
