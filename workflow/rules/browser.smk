"""The neuron browser: a page for each model, on which every shared neuron can be looked at."""

PAGES += expand("<results>/browser/{model}.html", model=MODELS)
BROWSED = {
    "ranking": [every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"), -3, -2],
    "neuron_effects": [NEURON_EFFECTS, -3, -2],
    "heuristics": [HEURISTICS, -3, -2],
    "activation_maps": [
        every_grid_cell("<results>/{model}/{format}/{operator}/activation_maps.safetensors"),
        -3,
        -2,
    ],
    "row_activations": [ROW_ACTIVATIONS, -3, -2],
}


rule browser:
    input:
        **{name: paths for name, (paths, *_) in BROWSED.items()},
        promoted_tokens=PROMOTED,
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
        tables=lambda wildcards, input: table_options(BROWSED, input),
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance browser --model {wildcards.model:q} --models {params.models:q}"
        " --operators {params.operators:q} --tables {params.tables:q}"
        " --promoted-tokens {input.promoted_tokens:q} {params.k:q} --output {output:q} 2> {log:q}"
