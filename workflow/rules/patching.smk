"""Stage 2: exact patching of every candidate by replay, per (model, format, operator), in one job or several."""

TABLES += expand("results/{model}/{format}/{operator}/indirect_effects.safetensors", **CELLS)
SHARDS = config["patching_shards"]
PIECE = "" if SHARDS == 1 else f"_{{shard}}_of_{SHARDS}"


rule patching:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        dataset="results/{model}/{format}/{operator}/dataset.parquet",
        corrupt="results/{model}/{format}/{operator}/corrupt.parquet",
        attribution="results/{model}/{format}/{operator}/attribution.parquet",
    output:
        f"results/{{model}}/{{format}}/{{operator}}/indirect_effects{PIECE}.safetensors",
    log:
        f"results/logs/patching/{{model}}/{{format}}/{{operator}}{PIECE}.log",
    benchmark:
        f"results/benchmarks/patching/{{model}}/{{format}}/{{operator}}{PIECE}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("patching"),
        model=model_options,
        late_from=late_options,
        shard=lambda wildcards: f"{wildcards.get('shard', 1)}/{SHARDS}",
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance patching {params.model:q} {params.late_from:q}"
        " --dataset {input.dataset:q} --corrupt-table {input.corrupt:q} --attribution {input.attribution:q}"
        " --shard {params.shard} --output {output:q} 2> {log:q}"


if SHARDS > 1:

    rule merge_effects:
        input:
            expand(
                f"results/{{model}}/{{format}}/{{operator}}/indirect_effects{PIECE}.safetensors",
                shard=range(1, SHARDS + 1),
                allow_missing=True,
            ),
        output:
            "results/{model}/{format}/{operator}/indirect_effects.safetensors",
        log:
            "results/logs/merge_effects/{model}/{format}/{operator}.log",
        benchmark:
            "results/benchmarks/merge_effects/{model}/{format}/{operator}.tsv"
        conda:
            "../../envs/cpu.yaml"
        params:
            code=source_digest("merge-effects"),
        resources:
            **table_job(mem_mb=2000),
        shell:
            "python -m form_invariance merge-effects --shards {input:q} --output {output:q} 2> {log:q}"
