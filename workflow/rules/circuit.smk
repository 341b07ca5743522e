"""The shared circuit: neurons in the top k of every format, per (model, operator)."""

EFFECTS = every_format("<results>/{model}/{format}/{operator}/indirect_effects.safetensors")
CIRCUIT = every_operator("<results>/{model}/shared/{operator}/circuit.parquet")
CLASSIFIED_CIRCUIT = every_operator("<results>/{model}/shared/{operator}/classified_circuit.parquet")
TARGETS += expand([*CIRCUIT, *CLASSIFIED_CIRCUIT], model=MODELS)


rule circuit:
    input:
        effects=EFFECTS,
    output:
        table="<results>/{model}/shared/{operator}/circuit.parquet",
        halves_output="<results>/{model}/shared/{operator}/circuit_halves.parquet",
    log:
        "<results>/logs/circuit/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/circuit/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("circuit"),
        settings=settings("membership", "k", "seed"),
    resources:
        **table_job(mem_mb=2000, minutes=3),
    shell:
        "python -m form_invariance circuit --effects {input.effects:q} {params.settings:q} --output {output.table:q}"
        " --halves-output {output.halves_output:q} 2> {log:q}"


# The circuit whose neurons are classified has a file of its own, so that a change of k does not re-run the heuristics.
rule classified_circuit:
    input:
        effects=EFFECTS,
    output:
        "<results>/{model}/shared/{operator}/classified_circuit.parquet",
    log:
        "<results>/logs/classified_circuit/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/classified_circuit/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("circuit"),
        settings=settings("membership", "seed", k="k_shown"),
    resources:
        **table_job(mem_mb=2000, minutes=3),
    shell:
        "python -m form_invariance circuit --effects {input.effects:q} {params.settings:q} --output {output:q}"
        " 2> {log:q}"
