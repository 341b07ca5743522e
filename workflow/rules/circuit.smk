"""The shared circuit: neurons in the top k of every format, per (model, operator)."""

# The circuit whose neurons are classified has a file of its own, so that a change of k does not re-run the heuristics.
CIRCUITS = {"circuit": config["k"], "classified_circuit": [config["k_shown"]]}
EFFECTS = every_format("<results>/{model}/{format}/{operator}/indirect_effects.safetensors")
TARGETS += expand(
    "<results>/{model}/shared/{operator}/{circuit}.parquet", model=MODELS, operator=OPERATORS, circuit=CIRCUITS
)


rule circuit:
    input:
        effects=EFFECTS,
    output:
        "<results>/{model}/shared/{operator}/{circuit}.parquet",
        halves_output="<results>/{model}/shared/{operator}/{circuit}_halves.parquet",
    log:
        "<results>/logs/circuit/{model}/{operator}/{circuit}.log",
    benchmark:
        "<results>/benchmarks/circuit/{model}/{operator}/{circuit}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("circuit"),
        k=lambda wildcards: option("k", CIRCUITS[wildcards.circuit]),
        settings=settings("membership", "seed"),
    resources:
        **table_job(mem_mb=2000, minutes=3),
    shell:
        "python -m form_invariance circuit --effects {input.effects:q} {params.k:q} {params.settings:q}"
        " --output {output[0]:q} --halves-output {output.halves_output:q} 2> {log:q}"
