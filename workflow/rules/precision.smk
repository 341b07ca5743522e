"""What a lower precision does to the ranking, for models that do not run in float32."""

# Models that do not run in float32; none if no prompts are given.
LOWER = [name for name, model in config["models"].items() if model.get("dtype", "float32") != "float32"]
if config["precision_prompts"]:
    TABLES += expand("results/{model}/{format}/{operator}/precision.parquet", **{**CELLS, "model": LOWER})


rule precision:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        dataset="results/{model}/{format}/{operator}/dataset.parquet",
        corrupt="results/{model}/{format}/{operator}/corrupt.parquet",
        attribution="results/{model}/{format}/{operator}/attribution.parquet",
    output:
        "results/{model}/{format}/{operator}/precision.parquet",
    log:
        "results/logs/precision/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/precision/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("precision"),
        model=model_options,
        late_from=late_options,
        prompts=config["precision_prompts"],
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance precision {params.model:q} {params.late_from:q}"
        " --dataset {input.dataset:q} --corrupt-table {input.corrupt:q} --attribution {input.attribution:q}"
        " --prompts {params.prompts}"
        " --output {output:q} 2> {log:q}"
