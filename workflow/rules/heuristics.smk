"""Heuristics that the shared neurons follow: one choice of neurons per (model, operator), labels per format."""

HEURISTICS = every_grid_cell("<results>/{model}/{format}/{operator}/heuristics.parquet")
TARGETS += expand(HEURISTICS, model=MODELS)


rule labelled_neurons:
    input:
        circuit="<results>/{model}/shared/{operator}/classified_circuit.parquet",
        means=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
        rankings=every_format("<results>/{model}/{format}/{operator}/ranking.parquet"),
    output:
        "<results>/{model}/shared/{operator}/labelled_neurons.parquet",
    log:
        "<results>/logs/labelled_neurons/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/labelled_neurons/{model}/{operator}.tsv"
    # With what waits for it, the longest chain after the rankings.
    priority: 1
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("heuristics draw"),
        settings=settings("seed", k="k_shown"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance heuristics draw --circuit {input.circuit:q}"
        " --mean-caches {input.means:q} --rankings {input.rankings:q} {params.settings:q} --output {output:q}"
        " 2> {log:q}"


rule heuristics:
    input:
        null="<results>/heuristic_null/{operator}.safetensors",
        neurons="<results>/{model}/shared/{operator}/labelled_neurons.parquet",
        maps="<results>/{model}/{format}/{operator}/labelled_maps.safetensors",
    output:
        "<results>/{model}/{format}/{operator}/heuristics.parquet",
    log:
        "<results>/logs/heuristics/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/heuristics/{model}/{format}/{operator}.tsv"
    priority: 1
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("heuristics label"),
        grid=lambda wildcards: GRIDS[wildcards.operator],
        settings=settings("seed", max_operand="heuristic_max_operand", threshold="heuristic_threshold"),
    threads: lambda wildcards: table_costs.labelling_processes(config, wildcards.model)
    resources:
        **table_job(mem_mb=6000, minutes=120),
    shell:
        "python -m form_invariance heuristics label --null {input.null:q} --neurons {input.neurons:q}"
        " --maps {input.maps:q} {params.grid:q} {params.settings:q} --processes {threads} --output {output:q}"
        " 2> {log:q}"
