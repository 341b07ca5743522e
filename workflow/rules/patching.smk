"""Stage 2: exact patching of every candidate by replay, per (model, format, operator)."""


rule patching:
    input:
        model=model_files,
        probes=onset_probes,
        dataset="results/{model}/{format}/{operator}/dataset.parquet",
        corrupt="results/{model}/{format}/{operator}/corrupt.parquet",
        attribution="results/{model}/{format}/{operator}/attribution.parquet",
    output:
        "results/{model}/{format}/{operator}/indirect_effects.safetensors",
    log:
        "results/logs/patching/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/patching/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("patching"),
        model=model_options,
        late_from=late_options,
    threads: 1
    resources:
        mem_mb=4000,
    shell:
        "python -m form_invariance patching {params.model:q} {params.late_from:q}"
        " --dataset {input.dataset:q} --corrupt-table {input.corrupt:q} --attribution {input.attribution:q}"
        " --output {output:q} 2> {log:q}"
