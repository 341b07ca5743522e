"""The shared circuit: the formats' top-k intersected, and how far they overlap, per (model, operator)."""

EFFECTS = cells_of("results/{model}/{format}/{operator}/indirect_effects.safetensors", format=FORMATS)


# The circuit whose neurons are classified stands apart, so that other sizes may come and go beside it.
rule circuit:
    input:
        effects=EFFECTS,
    output:
        "results/{model}/shared/{operator}/{circuit}.parquet",
    log:
        "results/logs/circuit/{model}/{operator}/{circuit}.log",
    benchmark:
        "results/benchmarks/circuit/{model}/{operator}/{circuit}.tsv"
    wildcard_constraints:
        circuit="circuit|classified_circuit",
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("circuit"),
        effects=lambda wildcards, input: named(FORMATS, input.effects),
        k=lambda wildcards: KS if wildcards.circuit == "circuit" else [config["heuristic_k"]],
    threads: 1
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance circuit --effects {params.effects:q} --k {params.k} --output {output:q} 2> {log:q}"


rule overlap:
    input:
        effects=EFFECTS,
    output:
        overlap="results/{model}/shared/{operator}/overlap.parquet",
        reliability="results/{model}/shared/{operator}/reliability.parquet",
    log:
        "results/logs/overlap/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/overlap/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("overlap"),
        effects=lambda wildcards, input: named(FORMATS, input.effects),
        k=KS,
        bootstrap=config["bootstrap"],
        seed=config["seed"],
    threads: 1
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance overlap --effects {params.effects:q} --k {params.k}"
        " --bootstrap {params.bootstrap} --seed {params.seed} --output {output.overlap:q}"
        " --reliability-output {output.reliability:q} 2> {log:q}"
