"""What the first stage of the ranking lets through, for each model of which every late neuron is patched exactly."""

# Neurons of a layer; None for a model that is not on this machine.
WIDTHS = {name: model_checks.width(model["source"]) for name, model in config["models"].items()}
AUDITED = [name for name, width in WIDTHS.items() if width is not None and width <= config["candidates"]]
TABLES += expand("results/{model}/shared/audit.parquet", model=AUDITED)
FIGURES["audit audit"] = ANSWERS["audit"] = AUDITED, {"audit": ["results/{model}/shared/audit.parquet"]}


rule audit:
    input:
        rankings=every_cell("results/{model}/{format}/{operator}/ranking.parquet"),
    output:
        "results/{model}/shared/audit.parquet",
    log:
        "results/logs/audit/{model}.log",
    benchmark:
        "results/benchmarks/audit/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("audit"),
        rankings=lambda wildcards, input: keyed(input.rankings, -3, -2),
        width=lambda wildcards: WIDTHS[wildcards.model],
        k=KS,
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance audit --rankings {params.rankings:q} --width {params.width} --k {params.k}"
        " --output {output:q} 2> {log:q}"
