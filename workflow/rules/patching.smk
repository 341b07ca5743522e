"""Stages 1 and 2, per (model, format, operator): attribution, then exact patching of the candidates, in shards or not."""

TABLES += expand("results/{model}/{format}/{operator}/indirect_effects.safetensors", **CELLS)
PIECE = "" if SHARDS == 1 else f"_{{shard}}_of_{SHARDS}"
RANKED = {"attribution": "results/{model}/{format}/{operator}/attribution.parquet"}
PATCHING = (
    "patching {params.model:q} --model-files {input.model:q} {params.running:q}"
    " {params.late_from:q} {params.probes:q}"
    " --dataset {input.dataset:q} --corrupt-table {input.corrupt:q}"
    f" --attribution {{{'input' if SHARDS > 1 else 'output'}.attribution:q}}"
    " {params.shard:q} --output {output.effects:q}"
)


rule patching:
    input:
        **(RANKED if SHARDS > 1 else {}),
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        dataset="results/{model}/{format}/{operator}/dataset.parquet",
        corrupt="results/{model}/{format}/{operator}/corrupt.parquet",
    output:
        **(RANKED if SHARDS == 1 else {}),
        effects=f"results/{{model}}/{{format}}/{{operator}}/indirect_effects{PIECE}.safetensors",
    log:
        f"results/logs/patching/{{model}}/{{format}}/{{operator}}{PIECE}.log",
    benchmark:
        f"results/benchmarks/patching/{{model}}/{{format}}/{{operator}}{PIECE}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=[source_digest("attribution"), source_digest("patching")],
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        candidates=setting("candidates"),
        method=setting("ranking_method"),
        shard=lambda wildcards: option("shard", f"{wildcards.get('shard', 1)}/{SHARDS}"),
    resources:
        **model_job(minutes=20),
    shell:
        in_turn(PATCHING) if SHARDS > 1 else in_turn(ATTRIBUTION, PATCHING)


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
            **table_job(mem_mb=2000, minutes=3),
        shell:
            "python -m form_invariance merge-effects --shards {input:q} --output {output:q} 2> {log:q}"
