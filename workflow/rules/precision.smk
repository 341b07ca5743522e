"""What a lower precision does to the ranking, for models that do not run in float32."""

# Models that do not run in float32; none if no prompts are given.
LOWER = [name for name, model in config["models"].items() if model.get("dtype", "float32") != "float32"]
if config["precision_prompts"]:
    TABLES += expand("results/{model}/{format}/{operator}/precision.parquet", **{**CELLS, "model": LOWER})


rule precision:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        datasets=every_cell("results/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("results/{model}/{format}/{operator}/corrupt.parquet"),
        attribution=every_cell("results/{model}/{format}/{operator}/attribution.parquet"),
    output:
        every_cell("results/{model}/{format}/{operator}/precision.parquet"),
    log:
        "results/logs/precision/{model}.log",
    benchmark:
        "results/benchmarks/precision/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("precision"),
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        datasets=lambda wildcards, input: keyed(input.datasets, -3, -2),
        corrupt=lambda wildcards, input: keyed(input.corrupt, -3, -2),
        attribution=lambda wildcards, input: keyed(input.attribution, -3, -2),
        prompts=setting("precision_prompts", "prompts"),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "precision {params.model:q} --model-files {input.model:q} {params.running:q}"
            " {params.late_from:q} {params.probes:q} --datasets {params.datasets:q}"
            " --corrupt-tables {params.corrupt:q} --attribution {params.attribution:q}"
            " {params.prompts:q} --output {output:q}"
        )
