"""Mean activations for the ablations, per format and per template of a model, from pairs that are in no dataset."""


rule mean_cache:
    input:
        model="<results>/{model}/model_files.parquet",
        census=every_cell("<results>/{model}/{format}/{operator}/census.parquet"),
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
    output:
        formats=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
        templates=every_cell("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
    log:
        "<results>/logs/mean_cache/{model}.log",
    benchmark:
        "<results>/benchmarks/mean_cache/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("mean-cache"),
        model=model_options,
        running=running_options,
        census=lambda wildcards, input: by_format(keyed(input.census, -2)),
        templates=lambda wildcards, output: by_format(keyed(output.templates, -2)),
        prompts=setting("mean_cache_prompts", "prompts"),
        seed=setting("seed"),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "mean-cache {params.model:q} --model-files {input.model:q} {params.running:q}"
            " --census {params.census[#]:q}"
            " --exclude {input.datasets:q} {params.prompts:q} {params.seed:q}"
            " --template-outputs {params.templates[#]:q} --output {output.formats[#]:q}",
            turns=len(FORMATS),
        )
