"""The neuron browser: a page for each model, on which every shared neuron can be looked at."""

PAGES += expand("<results>/browser/{model}.html", model=MODELS)
BROWSED = {
    name: [paths(f"<results>/{{model}}/{{format}}/{{operator}}/{file}"), -3, -2]
    for name, file, paths in (
        ("ranking", "ranking.parquet", every_cell),
        ("neuron_effects", "neuron_effects.parquet", every_cell),
        ("direct_effects", "direct_effects.parquet", every_cell),
        ("direct_effect_factors", "direct_effects.safetensors", every_cell),
        ("heuristics", "heuristics.parquet", every_grid_cell),
        ("activation_maps", "activation_maps.safetensors", every_grid_cell),
    )
}


rule browser:
    input:
        **{name: paths for name, (paths, *_) in BROWSED.items()},
    output:
        "<results>/browser/{model}.html",
    log:
        "<results>/logs/browser/{model}.log",
    benchmark:
        "<results>/benchmarks/browser/{model}.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("browser"),
        models=MODELS,
        # A function, because Snakemake would take braces in a table's path for wildcards.
        operators=lambda wildcards: [f"{name}={asked_of(config['operators'][name])}" for name in OPERATORS],
        tables=table_options(BROWSED),
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance browser --model {wildcards.model:q} --models {params.models:q}"
        " --operators {params.operators:q} --tables {params.tables:q} {params.k:q} --output {output:q} 2> {log:q}"
