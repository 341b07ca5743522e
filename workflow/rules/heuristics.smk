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
        max_operand=setting("heuristic_max_operand", "max-operand"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance heuristic-null {params.grid:q}"
        " {params.max_operand:q} {params.seed:q} --output {output:q} 2> {log:q}"


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
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heuristics"),
        means=lambda wildcards, input: keyed(input.means, -2),
        rankings=lambda wildcards, input: keyed(input.rankings, -3),
        k=setting("heuristic_k", "k"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance heuristics draw --operator {wildcards.operator:q} --circuit {input.circuit:q}"
        " --mean-caches {params.means:q} --rankings {params.rankings:q} {params.k:q} {params.seed:q}"
        " --output {output:q} 2> {log:q}"


rule heuristics:
    input:
        null="<results>/heuristic_null/{operator}.safetensors",
        model="<results>/{model}/model_files.parquet",
        neurons="<results>/{model}/shared/{operator}/labelled_neurons.parquet",
    output:
        tables=every_format("<results>/{model}/{format}/{operator}/heuristics.parquet"),
        maps=every_format("<results>/{model}/{format}/{operator}/activation_maps.safetensors"),
    log:
        "<results>/logs/heuristics/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/heuristics/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heuristics"),
        model=model_options,
        running=running_options,
        grid=lambda wildcards: GRIDS[wildcards.operator],
        templates=lambda wildcards: [one["templates"][wildcards.operator] for one in config["formats"].values()],
        max_operand=setting("heuristic_max_operand", "max-operand"),
        threshold=setting("heuristic_threshold", "threshold"),
        seed=setting("seed"),
    resources:
        **model_job(minutes=40, extra_mb=2000),
    shell:
        in_turn(
            "heuristics label {params.model:q} --model-files {input.model:q} {params.running:q}"
            " --operator {wildcards.operator:q}"
            " {params.grid:q} --template={params.templates[#]:q} --neurons {input.neurons:q}"
            " --null {input.null:q} {params.max_operand:q} {params.threshold:q}"
            " {params.seed:q} --output {output.tables[#]:q} --maps-output {output.maps[#]:q}",
            turns=len(FORMATS),
        )
