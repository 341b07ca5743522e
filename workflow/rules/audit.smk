"""What each method of the first stage lets through, for each model of which every late neuron is patched exactly."""

# Neurons of a layer; None for a model that is not on this machine.
WIDTHS = {name: model_checks.width(model["source"]) for name, model in config["models"].items()}
MOST_PATCHED = config_check.most_patched(config)
AUDITED = [name for name, width in WIDTHS.items() if width is not None and width <= MOST_PATCHED]
TABLES += expand("results/{model}/shared/audit.parquet", model=AUDITED)
FIGURES["audit audit"] = ANSWERS["audit"] = AUDITED, {"audit": ["results/{model}/shared/audit.parquet"]}


rule audit:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        dataset=every_cell("results/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("results/{model}/{format}/{operator}/corrupt.parquet"),
        rankings=every_cell("results/{model}/{format}/{operator}/ranking.parquet"),
    output:
        "results/{model}/shared/audit.parquet",
    log:
        "results/logs/audit/{model}.log",
    benchmark:
        "results/benchmarks/audit/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("audit"),
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        dataset=lambda wildcards, input: keyed(input.dataset, -3, -2),
        corrupt=lambda wildcards, input: keyed(input.corrupt, -3, -2),
        rankings=lambda wildcards, input: keyed(input.rankings, -3, -2),
        k=setting("k"),
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance audit {params.model:q} --model-files {input.model:q} {params.running:q}"
        " {params.late_from:q} {params.probes:q} --dataset {params.dataset:q}"
        " --corrupt-table {params.corrupt:q} --rankings {params.rankings:q} {params.k:q} --output {output:q}"
        " 2> {log:q}"
