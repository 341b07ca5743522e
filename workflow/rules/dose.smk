"""How much of the activations transfer needs, per (model, operator); where the configuration names doses."""


rule dose:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        census=cells_of("results/{model}/{format}/{operator}/census.parquet", format=FORMATS),
        rankings=cells_of("results/{model}/{format}/{operator}/ranking.parquet", format=FORMATS),
        circuit="results/{model}/shared/{operator}/classified_circuit.parquet",
    output:
        "results/{model}/shared/{operator}/dose.parquet",
    log:
        "results/logs/dose/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/dose/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("dose"),
        model=model_options,
        late_from=late_options,
        census=lambda wildcards, input: named(FORMATS, input.census),
        rankings=lambda wildcards, input: named(FORMATS, input.rankings),
        k=config["heuristic_k"],
        dose=DOSES,
        random_seeds=config["random_seeds"],
        pairs=config["transfer_pairs"],
        center="--center-logits" if config["center_logits"] else "--no-center-logits",
        seed=config["seed"],
    threads: 1
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance dose {params.model:q} {params.late_from:q}"
        " --operator {wildcards.operator:q} --census {params.census:q} --rankings {params.rankings:q}"
        " --circuit {input.circuit:q} --k {params.k} --dose {params.dose} --random-seeds {params.random_seeds}"
        " --pairs {params.pairs} {params.center} --seed {params.seed} --output {output:q} 2> {log:q}"


rule dose_figure:
    input:
        cells_of("results/{model}/shared/{operator}/dose.parquet", operator=OPERATORS),
    output:
        figure("{model}/dose"),
    log:
        "results/logs/figures/{model}/dose.log",
    benchmark:
        "results/benchmarks/figures/{model}/dose.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-dose"),
        tables=lambda wildcards, input: keyed(input, -2),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-dose --tables {params.tables:q} --title {wildcards.model:q}"
        " --output {output:q} 2> {log:q}"
