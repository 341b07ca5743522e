"""What a Jaccard means: models that share a known part of their circuit; about the pipeline, not about any model."""

CALIBRATION = ["<results>/calibration.parquet"]
FIGURES["calibration calibration"] = None, {"calibration": [CALIBRATION]}
ANSWERS["calibration"] = MODELS, {**OVERLAP, "calibration": [CALIBRATION]}
TABLES += CALIBRATION


rule calibration:
    output:
        CALIBRATION,
    log:
        "<results>/logs/calibration.log",
    benchmark:
        "<results>/benchmarks/calibration.tsv"
    # The longest job without inputs: begun last, it would keep the run waiting.
    priority: 1
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("calibration"),
        seed=settings("seed"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance calibration {params.seed:q} --output {output:q} 2> {log:q}"
