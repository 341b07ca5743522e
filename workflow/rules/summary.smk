"""The verdicts on every model, and all models side by side."""

VERDICTS = "<results>/{model}/shared/verdicts.parquet"
# The verdicts come first, as in the report.
ANSWERS = {"summary": [VERDICTS], **ANSWERS}
TARGETS += expand(VERDICTS, model=MODELS)
TARGETS += expand("<results>/figures/summary.{kind}", kind=FIGURE_KINDS)


rule summary:
    input:
        OVERLAP,
        DIFFERING,
        CONTRASTS,
        DECIDING,
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
        k_shown=settings("k_shown"),
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance summary --tables {input:q} {params.k_shown:q} --output {output:q} 2> {log:q}"


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
        code=source_digest("figure", part_of("summary", "figure")),
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance figure summary summary --tables {input:q} --title 'all models'"
        " {params.k:q} --output {output:q} 2> {log:q}"
