"""What the pipeline finds in models whose circuit was built by hand: about the pipeline, not about any model."""

FIGURES["planted planted"] = None, {"planted": ["<results>/planted.parquet"]}
TABLES.append("<results>/planted.parquet")


rule planted:
    output:
        "<results>/planted.parquet",
    log:
        "<results>/logs/planted.log",
    benchmark:
        "<results>/benchmarks/planted.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("planted"),
        seed=settings("seed"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance planted {params.seed:q} --output {output:q} 2> {log:q}"
