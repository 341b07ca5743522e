"""Heuristic families of the shared neurons, and whether they are the same in every format."""


rule classify:
    input:
        model="results/{model}/model_files.parquet",
        circuit="results/{model}/shared/{operator}/classified_circuit.parquet",
    output:
        heuristics="results/{model}/{format}/{operator}/heuristics.parquet",
        maps="results/{model}/{format}/{operator}/activation_maps.safetensors",
    log:
        "results/logs/classify/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/classify/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("classify"),
        model=model_options,
        expression=lambda wildcards: config["operators"][wildcards.operator],
        template=lambda wildcards: config["formats"][wildcards.format]["templates"][wildcards.operator],
        k=config["heuristic_k"],
        max_operand=config["heuristic_max_operand"],
        threshold=config["heuristic_threshold"],
        seed=config["seed"],
    threads: 1
    resources:
        **model_job(minutes=20, extra_mb=2000),
    shell:
        "python -m form_invariance classify {params.model:q} --operator {wildcards.operator:q}"
        " --expression={params.expression:q} --template={params.template:q} --circuit {input.circuit:q}"
        " --k {params.k} --max-operand {params.max_operand} --threshold {params.threshold}"
        " --seed {params.seed} --output {output.heuristics:q} --maps-output {output.maps:q} 2> {log:q}"


rule agreement:
    input:
        circuit="results/{model}/shared/{operator}/classified_circuit.parquet",
        heuristics=cells_of("results/{model}/{format}/{operator}/heuristics.parquet", format=FORMATS),
    output:
        agreement="results/{model}/shared/{operator}/agreement.parquet",
        labelled="results/{model}/shared/{operator}/labelled.parquet",
    log:
        "results/logs/agreement/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/agreement/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("agreement"),
        heuristics=lambda wildcards, input: named(FORMATS, input.heuristics),
        k=config["heuristic_k"],
        permutations=config["permutations"],
        seed=config["seed"],
    threads: 1
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance agreement --operator {wildcards.operator:q}"
        " --heuristics {params.heuristics:q} --circuit {input.circuit:q} --k {params.k}"
        " --permutations {params.permutations} --seed {params.seed} --output {output.agreement:q}"
        " --labelled-output {output.labelled:q} 2> {log:q}"
