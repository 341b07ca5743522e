"""Every figure that is drawn from tables: one rule for each entry of FIGURES, all alike."""

for drawn, (models, inputs) in FIGURES.items():
    stage, figure = drawn.split()
    place = figure if models is None else f"{{model}}/{figure}"
    TABLES += expand(
        f"<results>/figures/{place}.{{kind}}", kind=FIGURE_KINDS, model=MODELS if models is None else models
    )

    rule:
        name:
            f"{figure}_figure"
        input:
            **{name: paths for name, (paths, *_) in inputs.items()},
        output:
            figure_files(place),
        log:
            f"<results>/logs/figures/{place}.log",
        benchmark:
            f"<results>/benchmarks/figures/{place}.tsv"
        conda:
            "../../envs/plot.yaml"
        params:
            code=source_digest("figure", f"stages.{stage}.figure"),
            drawn=drawn,
            tables=table_options(inputs),
            title=lambda wildcards: wildcards.get("model", "all models"),
            k=settings(k="k_shown"),
        resources:
            **table_job(mem_mb=1000, minutes=3),
        shell:
            "python -m form_invariance figure {params.drawn} --tables {params.tables:q} --title {params.title:q}"
            " {params.k:q} --output {output:q} 2> {log:q}"
