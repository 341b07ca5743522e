"""The verdicts on every model, and all models side by side."""

VERDICTS = "<results>/{model}/shared/verdicts.parquet"
JUDGED = {
    "overlap": OVERLAP["overlap"],
    "differing": [DIFFERING],
    "intervention_contrasts": [CONTRASTS],
    **TRANSFER_CONTRASTS,
    "specificity_contrasts": SPECIFICITY["specificity_contrasts"],
}
FIGURES["summary summary"] = None, {"verdicts": [expand(VERDICTS, model=MODELS), -3]}
# The report opens with it.
ANSWERS = {"summary": (MODELS, {"verdicts": [VERDICTS]}), **ANSWERS}
TABLES += expand(VERDICTS, model=MODELS)


rule summary:
    input:
        **{name: paths for name, (paths, *_) in JUDGED.items()},
    output:
        VERDICTS,
    log:
        "<results>/logs/summary/{model}.log",
    benchmark:
        "<results>/benchmarks/summary/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("summary"),
        tables=table_options(JUDGED),
        k_shown=settings("k_shown"),
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance summary --tables {params.tables:q} {params.k_shown:q} --output {output:q} 2> {log:q}"
