"""Every figure of a model that is drawn from tables."""

TARGETS += expand("<results>/figures/{model}/{figure}.{kind}", model=MODELS, figure=FIGURES, kind=FIGURE_KINDS)


rule figure:
    input:
        lambda wildcards: FIGURES[wildcards.figure].tables,
    output:
        multiext("<results>/figures/{model}/{figure}", ".png", ".pdf"),
        report(
            "<results>/figures/{model}/{figure}.svg",
            caption="../report/figure.rst",
            category="{model}",
            labels={"figure": "{figure}"},
        ),
    log:
        "<results>/logs/figures/{model}/{figure}.log",
    benchmark:
        "<results>/benchmarks/figures/{model}/{figure}.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=lambda wildcards: source_digest("figure", part_of(FIGURES[wildcards.figure].stage, "figure")),
        stage=lambda wildcards: FIGURES[wildcards.figure].stage,
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance figure {params.stage:q} {wildcards.figure} --tables {input:q}"
        " --title {wildcards.model:q} {params.k:q} --output {output:q} 2> {log:q}"
