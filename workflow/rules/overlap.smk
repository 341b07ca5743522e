"""How far the formats' top k neurons overlap, per (model, operator)."""

OVERLAP = {
    table: [every_operator(f"<results>/{{model}}/shared/{{operator}}/{table}.parquet"), -2]
    for table in ("overlap", "reliability")
}
TABLES += expand(files_of(OVERLAP), model=MODELS)


rule overlap:
    input:
        effects=EFFECTS,
    output:
        table="<results>/{model}/shared/{operator}/overlap.parquet",
        reliability="<results>/{model}/shared/{operator}/reliability.parquet",
    log:
        "<results>/logs/overlap/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/overlap/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("overlap"),
        effects=lambda wildcards, input: keyed(input.effects, -3),
        settings=settings("k", "bootstrap", "membership", "seed"),
    resources:
        **table_job("overlap", mem_mb=4000),
    shell:
        "python -m form_invariance overlap --effects {params.effects:q} {params.settings:q}"
        " --output {output.table:q} --reliability-output {output.reliability:q} 2> {log:q}"
