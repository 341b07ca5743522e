"""How far the formats' best attention heads overlap, per (model, operator); only if the configuration names `heads`."""

if HEADS:
    HEAD_TABLES = {
        "heads": [
            every_cell("results/{model}/{format}/{operator}/heads.parquet"),
            -3,
            -2,
        ],
        "head_overlap": [
            every_operator("results/{model}/shared/{operator}/head_overlap.parquet"),
            -2,
        ],
    }
    FIGURES["head_overlap heads"] = ANSWERS["head_overlap"] = MODELS, HEAD_TABLES
    TABLES += expand("results/{model}/shared/{operator}/head_overlap.parquet", model=MODELS, operator=OPERATORS)


rule head_overlap:
    input:
        probes=onset_probes,
        effects="results/{model}/shared/{operator}/head_effects.safetensors",
    output:
        "results/{model}/shared/{operator}/head_overlap.parquet",
    log:
        "results/logs/head_overlap/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/head_overlap/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("head-overlap"),
        late_from=setting("late_from"),
        probes=probe_options,
        heads=setting("heads"),
        bootstrap=setting("bootstrap"),
        membership=setting("membership"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance head-overlap --effects {input.effects:q} {params.late_from:q} {params.probes:q}"
        " {params.heads:q} {params.membership:q} {params.bootstrap:q} {params.seed:q}"
        " --output {output:q} 2> {log:q}"
