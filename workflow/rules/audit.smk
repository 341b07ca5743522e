"""What the first stage of the ranking lets through, per model whose every late neuron was patched exactly."""


rule audit:
    input:
        rankings=cells_of(
            "results/{model}/{format}/{operator}/ranking.parquet", format=FORMATS, operator=OPERATORS
        ),
    output:
        table="results/{model}/shared/audit.parquet",
        figure=figure("{model}/audit"),
    log:
        "results/logs/audit/{model}.log",
    benchmark:
        "results/benchmarks/audit/{model}.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("audit"),
        rankings=lambda wildcards, input: keyed(input.rankings, -3, -2),
        width=lambda wildcards: model_checks.width(config["models"][wildcards.model]["source"]),
        k=KS,
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance audit --rankings {params.rankings:q} --width {params.width} --k {params.k}"
        " --title {wildcards.model:q} --output {output.table:q} --figure-output {output.figure:q} 2> {log:q}"
