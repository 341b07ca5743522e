"""How much of the activations transfer needs, in all operators of a model; only if the configuration names `dose`."""

if config.get("dose"):
    DOSE = every_operator("<results>/{model}/shared/{operator}/dose.parquet")
    FIGURES["dose dose"] = ANSWERS["dose"] = MODELS, {"dose": [DOSE, -2]}
    TABLES += expand(DOSE, model=MODELS)


rule dose:
    input:
        model="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        census=every_cell("<results>/{model}/{format}/{operator}/census.parquet"),
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
        circuits=every_operator("<results>/{model}/shared/{operator}/classified_circuit.parquet"),
    output:
        tables=every_operator("<results>/{model}/shared/{operator}/dose.parquet"),
    log:
        "<results>/logs/dose/{model}.log",
    benchmark:
        "<results>/benchmarks/dose/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("dose"),
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        operators=OPERATORS,
        census=lambda wildcards, input: by_operator(keyed(input.census, -3)),
        datasets=lambda wildcards, input: by_operator(input.datasets),
        rankings=lambda wildcards, input: by_operator(keyed(input.rankings, -3)),
        k=setting("heuristic_k", "k"),
        dose=setting("dose"),
        random_seeds=setting("random_seeds"),
        pairs=setting("transfer_pairs", "pairs"),
        center=CENTER,
        seed=setting("seed"),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "dose {params.model:q} --model-files {input.model:q} {params.running:q}"
            " {params.late_from:q} {params.probes:q} --operator {params.operators[#]:q}"
            " --census {params.census[#]:q} --exclude-train {params.datasets[#]:q} --rankings {params.rankings[#]:q}"
            " --circuit {input.circuits[#]:q} {params.k:q} {params.dose:q}"
            " {params.random_seeds:q} {params.pairs:q} {params.center} {params.seed:q}"
            " --output {output.tables[#]:q}",
            turns=len(OPERATORS),
        )
