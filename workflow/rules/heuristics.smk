"""Heuristics that the shared neurons follow, by their activation maps."""

HEURISTICS = every_grid_cell("<results>/{model}/{format}/{operator}/heuristics.parquet")
TARGETS += expand(HEURISTICS, model=MODELS)


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
    threads: lambda wildcards: job_costs.labelling_processes(config, wildcards.model)
    resources:
        **table_job(mem_mb=6000, minutes=120),
    shell:
        "python -m form_invariance heuristics label --null {input.null:q} --neurons {input.neurons:q}"
        " --maps {input.maps:q} {params.grid:q} {params.settings:q} --processes {threads} --output {output:q}"
        " 2> {log:q}"


rule heuristic_null:
    output:
        "<results>/heuristic_null/{operator}.safetensors",
    log:
        "<results>/logs/heuristic_null/{operator}.log",
    benchmark:
        "<results>/benchmarks/heuristic_null/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("heuristic-null"),
        grid=lambda wildcards: GRIDS[wildcards.operator],
        settings=settings("seed", max_operand="heuristic_max_operand"),
    resources:
        **table_job(mem_mb=2000, minutes=60),
    shell:
        "python -m form_invariance heuristic-null {params.grid:q} {params.settings:q} --output {output:q} 2> {log:q}"
