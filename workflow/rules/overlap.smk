"""How far the formats' top-k neurons overlap, per (model, operator)."""

OVERLAP = {
    table: [
        every_operator(f"results/{{model}}/shared/{{operator}}/{table}.parquet"),
        -2,
    ]
    for table in ("overlap", "reliability")
}
OPERATOR_OVERLAP = ["results/{model}/shared/operator_overlap.parquet"]
DIFFERING = ["results/{model}/shared/differing.parquet"]
FIGURES["overlap overlap"] = MODELS, {**OVERLAP, "operator_overlap": [OPERATOR_OVERLAP]}
FIGURES["overlap differing"] = MODELS, {"differing": [DIFFERING]}
ANSWERS["overlap"] = MODELS, OVERLAP
TABLES += expand(
    "results/{model}/shared/{operator}/{table}.parquet", model=MODELS, operator=OPERATORS, table=OVERLAP
)
TABLES += expand(OPERATOR_OVERLAP + DIFFERING, model=MODELS)


rule overlap:
    input:
        effects=EFFECTS,
    output:
        overlap="results/{model}/shared/{operator}/overlap.parquet",
        reliability="results/{model}/shared/{operator}/reliability.parquet",
    log:
        "results/logs/overlap/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/overlap/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("overlap"),
        effects=lambda wildcards, input: keyed(input.effects, -3),
        k=setting("k"),
        bootstrap=setting("bootstrap"),
        membership=setting("membership"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance overlap --effects {params.effects:q} {params.k:q}"
        " {params.membership:q} {params.bootstrap:q} {params.seed:q} --output {output.overlap:q}"
        " --reliability-output {output.reliability:q} 2> {log:q}"


rule operator_overlap:
    input:
        effects=every_operator(EFFECTS),
    output:
        operators="results/{model}/shared/operator_overlap.parquet",
        differing="results/{model}/shared/differing.parquet",
    log:
        "results/logs/operator_overlap/{model}.log",
    benchmark:
        "results/benchmarks/operator_overlap/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("operator-overlap"),
        effects=lambda wildcards, input: keyed(input.effects, -3, -2),
        k=setting("k"),
        bootstrap=setting("bootstrap"),
        membership=setting("membership"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance operator-overlap --effects {params.effects:q} {params.k:q}"
        " {params.membership:q} {params.bootstrap:q} {params.seed:q} --output {output.operators:q}"
        " --differing-output {output.differing:q} 2> {log:q}"
