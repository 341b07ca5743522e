"""The ranking of a model in a lower precision, compared with the ranking in float32, on some train prompts."""

# Models that do not run in float32; none if no prompts are given.
LOWER = [name for name, model in config["models"].items() if model.get("dtype", "float32") != "float32"]
PRECISION = every_cell("<results>/{model}/{format}/{operator}/precision.parquet")
if config["precision_prompts"]:
    TABLES += expand(PRECISION, model=LOWER)


rule precision:
    input:
        model_files="<results>/{model}/model_files.parquet",
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
        attribution=every_cell("<results>/{model}/{format}/{operator}/attribution.parquet"),
    output:
        PRECISION,
    log:
        "<results>/logs/precision/{model}.log",
    benchmark:
        "<results>/benchmarks/precision/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("precision"),
        model=model_options,
        settings=settings("late_from", prompts="precision_prompts"),
    resources:
        **model_job("precision"),
    shell:
        "python -m form_invariance precision {params.model:q} --model-files {input.model_files:q}"
        " --datasets {input.datasets:q} --corrupt-tables {input.corrupt:q} --attribution {input.attribution:q}"
        " {params.settings:q} --output {output:q} 2> {log:q}"
