"""Mean activations for the ablations, per format and per template of a model, from pairs that are in no dataset."""


rule mean_cache:
    input:
        model_files="<results>/{model}/model_files.parquet",
        # All formats of the first operator, then of the next: each turn has its format's.
        census=every_format(every_operator("<results>/{model}/{format}/{operator}/census.parquet")),
        exclude=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
    output:
        output=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
        template_outputs=every_format(
            every_operator("<results>/{model}/{format}/{operator}/mean_cache.safetensors")
        ),
    log:
        "<results>/logs/mean_cache/{model}.log",
    benchmark:
        "<results>/benchmarks/mean_cache/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("mean-cache"),
        model=model_options,
        files=file_options(turns=len(FORMATS), shared=["exclude"], census=-2, template_outputs=-2),
        settings=settings("seed", prompts="mean_cache_prompts"),
    resources:
        **model_job("mean_cache"),
    shell:
        in_turn("mean-cache {params.model:q} {params.files[#]:q} {params.settings:q}", turns=len(FORMATS))
