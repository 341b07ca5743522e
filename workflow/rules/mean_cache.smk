"""Mean activations for the ablations, per format and per template of a model, from pairs that are in no dataset."""


rule mean_cache:
    input:
        model_files="<results>/{model}/model_files.parquet",
        censuses=every_operator("<results>/{model}/{format}/{operator}/census.parquet"),
        exclude=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
    output:
        mean_cache="<results>/{model}/{format}/mean_cache.safetensors",
        template_outputs=every_operator("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
    log:
        "<results>/logs/mean_cache/{model}/{format}.log",
    benchmark:
        "<results>/benchmarks/mean_cache/{model}/{format}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("mean-cache"),
        model=model_options,
        settings=settings("seed", prompts="mean_cache_prompts"),
    resources:
        **model_job("mean_cache"),
    shell:
        "python -m form_invariance mean-cache {params.model:q} --model-files {input.model_files:q}"
        " --censuses {input.censuses:q} --exclude {input.exclude:q} {params.settings:q}"
        " --output {output.mean_cache:q} --template-outputs {output.template_outputs:q} 2> {log:q}"
