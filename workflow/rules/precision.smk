"""The ranking in a lower precision compared with that in float32, on some train prompts, per (model, format, operator)."""

# Models that do not run in float32. They are compared if precision_prompts is not 0.
LOWER = [name for name, model in config["models"].items() if model.get("dtype", "float32") != "float32"]
PRECISION = every_cell("<results>/{model}/{format}/{operator}/precision.parquet")
if config["precision_prompts"]:
    TARGETS += expand(PRECISION, model=LOWER)
    ANSWERS["precision"], ABOUT["precision"] = PRECISION, LOWER


rule precision:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        corrupt_table="<results>/{model}/{format}/{operator}/corrupt.parquet",
        attribution="<results>/{model}/{format}/{operator}/attribution.parquet",
    output:
        "<results>/{model}/{format}/{operator}/precision.parquet",
    log:
        "<results>/logs/precision/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/precision/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("precision"),
        model=lambda wildcards: model_options(wildcards, "readout"),
        settings=settings("late_from", "ranking", prompts="precision_prompts"),
    resources:
        **model_job("precision"),
    shell:
        "python -m form_invariance precision {params.model:q} --model-files {input.model_files:q}"
        " --dataset {input.dataset:q} --corrupt-table {input.corrupt_table:q} --attribution {input.attribution:q}"
        " {params.settings:q} --output {output:q} 2> {log:q}"
