"""How much of the activations transfer needs, in all operators of a model; only if the configuration names `dose`."""

DOSES = sorted(config.get("dose", []))
if DOSES:
    DOSE = every_operator("results/{model}/shared/{operator}/dose.parquet")
    FIGURES["dose dose"] = ANSWERS["dose"] = MODELS, {"dose": [DOSE, -2]}
    TABLES += expand(DOSE, model=MODELS)


rule dose:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        census=every_cell("results/{model}/{format}/{operator}/census.parquet"),
        datasets=every_cell("results/{model}/{format}/{operator}/dataset.parquet"),
        rankings=every_cell("results/{model}/{format}/{operator}/ranking.parquet"),
        circuits=every_operator("results/{model}/shared/{operator}/classified_circuit.parquet"),
    output:
        tables=every_operator("results/{model}/shared/{operator}/dose.parquet"),
    log:
        "results/logs/dose/{model}.log",
    benchmark:
        "results/benchmarks/dose/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("dose"),
        model=model_options,
        late_from=late_options,
        operators=OPERATORS,
        census=lambda wildcards, input: by_operator(keyed(input.census, -3)),
        datasets=lambda wildcards, input: by_operator(input.datasets),
        rankings=lambda wildcards, input: by_operator(keyed(input.rankings, -3)),
        k=config["heuristic_k"],
        dose=DOSES,
        random_seeds=config["random_seeds"],
        pairs=config["transfer_pairs"],
        center=CENTER,
        seed=config["seed"],
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "dose {params.model:q} {params.late_from:q} --operator {params.operators[#]:q}"
            " --census {params.census[#]:q} --exclude-train {params.datasets[#]:q} --rankings {params.rankings[#]:q}"
            " --circuit {input.circuits[#]:q} --k {params.k} --dose {params.dose}"
            " --random-seeds {params.random_seeds} --pairs {params.pairs} {params.center} --seed {params.seed}"
            " --output {output.tables[#]:q}",
            turns=len(OPERATORS),
        )
