"""How much of the activations transfer needs, per (model, operator); only if the configuration names `dose`."""

DOSES = sorted(config.get("dose", []))
if DOSES:
    DOSE = every_operator("results/{model}/shared/{operator}/dose.parquet")
    FIGURES["dose dose"] = ANSWERS["dose"] = MODELS, {"dose": [DOSE, -2]}
    TABLES += expand(DOSE, model=MODELS)


rule dose:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        census=every_format("results/{model}/{format}/{operator}/census.parquet"),
        rankings=every_format("results/{model}/{format}/{operator}/ranking.parquet"),
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
        census=lambda wildcards, input: keyed(input.census, -3),
        rankings=lambda wildcards, input: keyed(input.rankings, -3),
        k=config["heuristic_k"],
        dose=DOSES,
        random_seeds=config["random_seeds"],
        pairs=config["transfer_pairs"],
        center=CENTER,
        seed=config["seed"],
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance dose {params.model:q} {params.late_from:q}"
        " --operator {wildcards.operator:q} --census {params.census:q} --rankings {params.rankings:q}"
        " --circuit {input.circuit:q} --k {params.k} --dose {params.dose} --random-seeds {params.random_seeds}"
        " --pairs {params.pairs} {params.center} --seed {params.seed} --output {output:q} 2> {log:q}"
