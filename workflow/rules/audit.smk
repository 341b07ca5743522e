"""Two rankings of the same neurons compared: by each first stage and exactly; in a lower precision and in float32."""

# Neurons of a layer; None for a model that is not on this machine.
WIDTHS = {name: model_checks.width(model["source"]) for name, model in config["models"].items()}
MOST_PATCHED = config_check.most_patched(config)
# Models of which every late neuron is patched exactly.
AUDITED = [name for name, width in WIDTHS.items() if width is not None and width <= MOST_PATCHED]
TABLES += expand("<results>/{model}/shared/audit.parquet", model=AUDITED)
FIGURES["audit audit"] = ANSWERS["audit"] = AUDITED, {"audit": ["<results>/{model}/shared/audit.parquet"]}
# Models that do not run in float32; none if no prompts are given.
LOWER = [name for name, model in config["models"].items() if model.get("dtype", "float32") != "float32"]
if config["precision_prompts"]:
    TABLES += expand("<results>/{model}/{format}/{operator}/precision.parquet", **{**CELLS, "model": LOWER})


rule audit:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt_table=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
    output:
        output="<results>/{model}/shared/audit.parquet",
    log:
        "<results>/logs/audit/{model}.log",
    benchmark:
        "<results>/benchmarks/audit/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("audit"),
        model=model_options,
        files=file_options(dataset=CELL, corrupt_table=CELL, rankings=CELL),
        settings=settings("late_from", "k"),
    resources:
        **model_job(minutes=20),
    shell:
        in_turn("audit {params.model:q} {params.files:q} {params.settings:q}")


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
        **model_job(minutes=60),
    shell:
        in_turn("precision {params.model:q} {params.files:q} {params.settings:q}")
