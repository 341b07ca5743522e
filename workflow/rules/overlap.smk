"""How far the formats' top k neurons overlap, per (model, operator)."""

OVERLAP = every_operator("<results>/{model}/shared/{operator}/overlap.parquet")
RELIABILITY = every_operator("<results>/{model}/shared/{operator}/reliability.parquet")
TARGETS += expand([*OVERLAP, *RELIABILITY], model=MODELS)


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
        settings=settings("k", "bootstrap", "membership", "seed"),
    resources:
        **table_job("overlap", mem_mb=4000),
    shell:
        "python -m form_invariance overlap --effects {input.effects:q} {params.settings:q}"
        " --output {output.table:q} --reliability-output {output.reliability:q} 2> {log:q}"
