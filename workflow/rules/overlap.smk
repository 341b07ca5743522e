"""The shared circuit: the formats' top-k intersected, per (model, operator)."""


rule overlap:
    input:
        effects=cells_of("results/{model}/{format}/{operator}/indirect_effects.safetensors", format=FORMATS),
    output:
        overlap="results/{model}/shared/{operator}/overlap.parquet",
        reliability="results/{model}/shared/{operator}/reliability.parquet",
        circuit="results/{model}/shared/{operator}/circuit.parquet",
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
        " --reliability-output {output.reliability:q} --circuit-output {output.circuit:q} 2> {log:q}"
