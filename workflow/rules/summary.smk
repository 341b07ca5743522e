"""The verdicts on every model, and all models side by side."""

VERDICTS = "<results>/{model}/shared/verdicts.parquet"
JUDGED = {
    "overlap": OVERLAP["overlap"],
    "differing": ACROSS["differing"],
    "intervention_contrasts": [CONTRASTS],
    **TRANSFER_CONTRASTS,
    "specificity_contrasts": SPECIFICITY["specificity_contrasts"],
}
# The report opens with it.
ANSWERS = {"summary": (MODELS, {"verdicts": [VERDICTS]}), **ANSWERS}
TABLES += expand(VERDICTS, model=MODELS)
TABLES += expand("<results>/figures/summary.{kind}", kind=FIGURE_KINDS)


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
        tables=lambda wildcards, input: table_options(JUDGED, input),
        k_shown=settings("k_shown"),
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance summary --tables {params.tables:q} {params.k_shown:q} --output {output:q} 2> {log:q}"


rule summary_figure:
    input:
        expand(VERDICTS, model=MODELS),
    output:
        multiext("<results>/figures/summary", ".png", ".pdf"),
        report(
            "<results>/figures/summary.svg",
            caption="../report/summary.rst",
            category="All models",
            labels={"figure": "summary"},
        ),
    log:
        "<results>/logs/figures/summary.log",
    benchmark:
        "<results>/benchmarks/figures/summary.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure", "stages.summary.figure"),
        tables=lambda wildcards, input: [f"verdicts/{item}" for item in keyed(input, -3)],
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance figure summary summary --tables {params.tables:q} --title 'all models'"
        " {params.k:q} --output {output:q} 2> {log:q}"
