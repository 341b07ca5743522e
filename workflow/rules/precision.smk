"""The ranking of a model in a lower precision, compared with the ranking in float32, on some train prompts."""

# Models that do not run in float32; none if no prompts are given.
LOWER = [name for name, model in config["models"].items() if model.get("dtype", "float32") != "float32"]
if config["precision_prompts"]:
    TABLES += expand("<results>/{model}/{format}/{operator}/precision.parquet", **{**CELLS, "model": LOWER})


rule precision:
    input:
        model_files="<results>/{model}/model_files.parquet",
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt_tables=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
        attribution=every_cell("<results>/{model}/{format}/{operator}/attribution.parquet"),
    output:
        output=every_cell("<results>/{model}/{format}/{operator}/precision.parquet"),
    log:
        "<results>/logs/precision/{model}.log",
    benchmark:
        "<results>/benchmarks/precision/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("precision"),
        model=model_options,
        files=file_options(datasets=CELL, corrupt_tables=CELL, attribution=CELL),
        settings=settings("late_from", prompts="precision_prompts"),
    resources:
        **model_job("precision"),
    shell:
        in_turn("precision {params.model:q} {params.files:q} {params.settings:q}")
