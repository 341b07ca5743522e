"""Activations of the shared neurons over all operands: one choice of neurons per (model, operator), maps per format."""


rule labelled_neurons:
    input:
        circuit="<results>/{model}/shared/{operator}/classified_circuit.parquet",
        format_mean_caches=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
        ranking_tables=every_format("<results>/{model}/{format}/{operator}/ranking.parquet"),
    output:
        "<results>/{model}/shared/{operator}/labelled_neurons.parquet",
    log:
        "<results>/logs/labelled_neurons/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/labelled_neurons/{model}/{operator}.tsv"
    # This rule and the rules that wait for it are the longest chain after the rankings.
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
        " --format-mean-caches {input.format_mean_caches:q} --ranking-tables {input.ranking_tables:q}"
        " {params.settings:q} --output {output:q} 2> {log:q}"


rule activation_maps:
    input:
        model_files="<results>/{model}/model_files.parquet",
        neurons="<results>/{model}/shared/{operator}/labelled_neurons.parquet",
    output:
        maps="<results>/{model}/{format}/{operator}/activation_maps.safetensors",
        labelled_output="<results>/{model}/{format}/{operator}/labelled_maps.safetensors",
    log:
        "<results>/logs/activation_maps/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/activation_maps/{model}/{format}/{operator}.tsv"
    priority: 1
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("activation-maps"),
        model=model_options,
        grid=lambda wildcards: GRIDS[wildcards.operator],
        template=lambda wildcards: config_check.template_of(config, wildcards.format, wildcards.operator),
        settings=settings("seed", max_operand="heuristic_max_operand"),
    resources:
        **model_job("activation_maps", extra_mb=2000),
    shell:
        "python -m form_invariance activation-maps {params.model:q} --model-files {input.model_files:q}"
        " --neurons {input.neurons:q} --format {wildcards.format:q} {params.grid:q} --template={params.template:q}"
        " {params.settings:q} --output {output.maps:q} --labelled-output {output.labelled_output:q} 2> {log:q}"
