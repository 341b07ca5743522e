"""Attention heads: exact patching in all cells of a model; only if the configuration names `heads`."""

HEADS = sorted(config.get("heads", []))
if HEADS:
    TABLES += expand("results/{model}/{format}/{operator}/heads.parquet", **CELLS)


# One job for all cells: reading the model takes longer than patching its heads.
rule heads:
    input:
        model="results/{model}/model_files.parquet",
        datasets=every_cell("results/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("results/{model}/{format}/{operator}/corrupt.parquet"),
    output:
        tables=every_cell("results/{model}/{format}/{operator}/heads.parquet"),
        effects=every_operator("results/{model}/shared/{operator}/head_effects.safetensors"),
    log:
        "results/logs/heads/{model}.log",
    benchmark:
        "results/benchmarks/heads/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heads"),
        model=model_options,
        running=running_options,
        datasets=lambda wildcards, input: by_operator(keyed(input.datasets, -3)),
        corrupt=lambda wildcards, input: by_operator(keyed(input.corrupt, -3)),
        tables=lambda wildcards, output: by_operator(output.tables),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "heads {params.model:q} --model-files {input.model:q} {params.running:q}"
            " --datasets {params.datasets[#]:q} --corrupt-tables {params.corrupt[#]:q}"
            " --effects-output {output.effects[#]:q} --output {params.tables[#]:q}",
            turns=len(OPERATORS),
        )
