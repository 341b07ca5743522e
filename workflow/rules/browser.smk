"""The neuron browser: a page for each model, on which every shared neuron can be looked at."""

PAGES += expand("<results>/browser/{model}.html", model=MODELS)


rule browser:
    input:
        ranking_tables=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
        neuron_effects=NEURON_EFFECTS,
        heuristics=HEURISTICS,
        maps=every_grid_cell("<results>/{model}/{format}/{operator}/activation_maps.safetensors"),
        row_activations=ROW_ACTIVATIONS,
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
        asked=lambda wildcards: json.dumps({name: asked_of(config["operators"][name]) for name in OPERATORS}),
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance browser --models {params.models:q} --asked {params.asked:q}"
        " --ranking-tables {input.ranking_tables:q} --neuron-effects {input.neuron_effects:q}"
        " --heuristics {input.heuristics:q} --maps {input.maps:q} --row-activations {input.row_activations:q}"
        " --promoted-tokens {input.promoted_tokens:q} {params.k:q} --output {output:q} 2> {log:q}"
