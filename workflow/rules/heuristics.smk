"""Heuristics that the shared neurons follow in all formats, per (model, operator)."""

# The grid of every operator that is an expression. One that asks a digit keeps its own limits.
GRIDS = {
    name: ASKED[name][:1] if name in NUMBER_OPERATORS else ASKED[name]
    for name in OPERATORS
    if name not in TASK_TABLES
}
GRID_MODELS = MODELS if GRIDS else []
every_grid_cell = partial(expand, format=FORMATS, operator=list(GRIDS), allow_missing=True)
HEURISTICS = every_grid_cell("<results>/{model}/{format}/{operator}/heuristics.parquet")
TABLES += expand(HEURISTICS, model=GRID_MODELS)


rule heuristic_null:
    output:
        "<results>/heuristic_null/{operator}.safetensors",
    log:
        "<results>/logs/heuristic_null/{operator}.log",
    benchmark:
        "<results>/benchmarks/heuristic_null/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heuristic-null"),
        grid=lambda wildcards: GRIDS[wildcards.operator],
        settings=settings("seed", max_operand="heuristic_max_operand"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        in_turn("heuristic-null {params.grid:q} {params.settings:q} --output {output:q}")


rule labelled_neurons:
    input:
        circuit="<results>/{model}/shared/{operator}/classified_circuit.parquet",
        mean_caches=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
        rankings=every_format("<results>/{model}/{format}/{operator}/ranking.parquet"),
    output:
        output="<results>/{model}/shared/{operator}/labelled_neurons.parquet",
    log:
        "<results>/logs/labelled_neurons/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/labelled_neurons/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heuristics"),
        files=file_options(mean_caches=-2, rankings=-3),
        settings=settings("seed", k="k_shown"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        in_turn("heuristics draw --operator {wildcards.operator:q} {params.files:q} {params.settings:q}")


rule heuristics:
    input:
        null="<results>/heuristic_null/{operator}.safetensors",
        model_files="<results>/{model}/model_files.parquet",
        neurons="<results>/{model}/shared/{operator}/labelled_neurons.parquet",
    output:
        output=every_format("<results>/{model}/{format}/{operator}/heuristics.parquet"),
        maps_output=every_format("<results>/{model}/{format}/{operator}/activation_maps.safetensors"),
    log:
        "<results>/logs/heuristics/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/heuristics/{model}/{operator}.tsv"
    # With what waits for it, the longest chain after the rankings.
    priority: 1
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heuristics"),
        model=model_options,
        files=file_options(turns=len(FORMATS)),
        grid=lambda wildcards: GRIDS[wildcards.operator],
        templates=lambda wildcards: [one["templates"][wildcards.operator] for one in config["formats"].values()],
        settings=settings("seed", max_operand="heuristic_max_operand", threshold="heuristic_threshold"),
    resources:
        **model_job("heuristics", extra_mb=2000),
    shell:
        in_turn(
            "heuristics label {params.model:q} {params.files[#]:q} --operator {wildcards.operator:q}"
            " {params.grid:q} --template={params.templates[#]:q} {params.settings:q}",
            turns=len(FORMATS),
        )
