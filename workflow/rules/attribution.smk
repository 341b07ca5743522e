"""Stage 1: attribution patching, per (model, format, operator)."""


rule attribution:
    input:
        model=model_files,
        dataset="results/{model}/{format}/{operator}/dataset.parquet",
        corrupt="results/{model}/{format}/{operator}/corrupt.parquet",
    output:
        "results/{model}/{format}/{operator}/attribution.parquet",
    log:
        "results/logs/attribution/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/attribution/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("attribution"),
        model=model_options,
        late_from=config["late_from"],
        candidates=config["candidates"],
    threads: 1
    resources:
        mem_mb=4000,
    shell:
        "python -m form_invariance attribution {params.model:q} --late-from {params.late_from}"
        " --dataset {input.dataset:q} --corrupt-table {input.corrupt:q} --candidates {params.candidates}"
        " --output {output:q} 2> {log:q}"
