"""Whether the shared neurons do the same in every format, per (model, operator)."""

AGREEMENT = every_grid("<results>/{model}/shared/{operator}/agreement.parquet")
LABELLED = every_grid("<results>/{model}/shared/{operator}/labelled.parquet")
CORRELATIONS = every_grid("<results>/{model}/shared/{operator}/activation_correlation.parquet")
if GRIDS:
    FIGURES["heuristics"] = Figure("agreement", [*HEURISTICS, *AGREEMENT, *LABELLED])
    ANSWERS["agreement"] = [*AGREEMENT, *LABELLED, *CORRELATIONS]
TARGETS += expand([*AGREEMENT, *LABELLED, *CORRELATIONS], model=MODELS)


rule agreement:
    input:
        neurons="<results>/{model}/shared/{operator}/labelled_neurons.parquet",
        heuristics=every_format("<results>/{model}/{format}/{operator}/heuristics.parquet"),
        maps=every_format("<results>/{model}/{format}/{operator}/activation_maps.safetensors"),
    output:
        table="<results>/{model}/shared/{operator}/agreement.parquet",
        labelled_output="<results>/{model}/shared/{operator}/labelled.parquet",
        correlation_output="<results>/{model}/shared/{operator}/activation_correlation.parquet",
    log:
        "<results>/logs/agreement/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/agreement/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("agreement"),
        settings=settings("permutations", "seed"),
    resources:
        **table_job(mem_mb=2000, minutes=20),
    shell:
        "python -m form_invariance agreement --neurons {input.neurons:q}"
        " --heuristics {input.heuristics:q} --maps {input.maps:q} {params.settings:q} --output {output.table:q}"
        " --labelled-output {output.labelled_output:q} --correlation-output {output.correlation_output:q}"
        " 2> {log:q}"
