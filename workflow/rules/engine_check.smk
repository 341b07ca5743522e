"""The fast engine against TransformerLens, on a few prompts of every cell of a model."""

ENGINE_CHECK = ["<results>/{model}/engine_check.parquet"]
ANSWERS["engine_check"] = MODELS, {"engine_check": ENGINE_CHECK}
TABLES += expand(ENGINE_CHECK, model=MODELS)


rule engine_check:
    input:
        model="<results>/{model}/model_files.parquet",
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
        attribution=every_cell("<results>/{model}/{format}/{operator}/attribution.parquet"),
        mean_cache=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
    output:
        "<results>/{model}/engine_check.parquet",
    log:
        "<results>/logs/engine_check/{model}.log",
    benchmark:
        "<results>/benchmarks/engine_check/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("engine-check"),
        model=model_options,
        running=running_options,
        dataset=lambda wildcards, input: keyed(input.dataset, -3, -2),
        corrupt=lambda wildcards, input: keyed(input.corrupt, -3, -2),
        attribution=lambda wildcards, input: keyed(input.attribution, -3, -2),
        mean_cache=lambda wildcards, input: keyed(input.mean_cache, -2),
        prompts=option("prompts", 2),
    resources:
        **model_job(minutes=10),
    shell:
        "python -m form_invariance engine-check {params.model:q} --model-files {input.model:q} {params.running:q}"
        " --dataset {params.dataset:q}"
        " --corrupt-table {params.corrupt:q} --attribution {params.attribution:q}"
        " --mean-cache {params.mean_cache:q} {params.prompts:q} --output {output:q} 2> {log:q}"
