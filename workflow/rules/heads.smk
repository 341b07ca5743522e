"""Attention heads: exact patching in all formats, per (model, operator); only if the configuration names `heads`."""

HEADS = sorted(config.get("heads", []))
if HEADS:
    TABLES += expand("results/{model}/{format}/{operator}/heads.parquet", **CELLS)


# One job for all formats: reading the model takes longer than patching its heads.
rule heads:
    input:
        model="results/{model}/model_files.parquet",
        dataset=every_format("results/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_format("results/{model}/{format}/{operator}/corrupt.parquet"),
    output:
        tables=expand("results/{{model}}/{format}/{{operator}}/heads.parquet", format=FORMATS),
        effects="results/{model}/shared/{operator}/head_effects.safetensors",
    log:
        "results/logs/heads/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/heads/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heads"),
        model=model_options,
        dataset=lambda wildcards, input: keyed(input.dataset, -3),
        corrupt=lambda wildcards, input: keyed(input.corrupt, -3),
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance heads {params.model:q} --datasets {params.dataset:q}"
        " --corrupt-tables {params.corrupt:q} --effects-output {output.effects:q}"
        " --output {output.tables:q} 2> {log:q}"
