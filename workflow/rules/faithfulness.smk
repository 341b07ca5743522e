"""Areas under the faithfulness curve, in all operators of a model."""

FAITHFULNESS = every_operator("results/{model}/shared/{operator}/faithfulness.parquet")
FIGURES["faithfulness faithfulness"] = ANSWERS["faithfulness"] = MODELS, {"faithfulness": [FAITHFULNESS, -2]}
TABLES += expand(FAITHFULNESS, model=MODELS)


rule faithfulness:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        dataset=every_cell("results/{model}/{format}/{operator}/dataset.parquet"),
        attribution=every_cell("results/{model}/{format}/{operator}/attribution.parquet"),
        rankings=every_cell("results/{model}/{format}/{operator}/ranking.parquet"),
        mean_cache=every_format("results/{model}/{format}/mean_cache.safetensors"),
    output:
        tables=FAITHFULNESS,
    log:
        "results/logs/faithfulness/{model}.log",
    benchmark:
        "results/benchmarks/faithfulness/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("faithfulness"),
        model=model_options,
        late_from=late_options,
        operators=OPERATORS,
        dataset=lambda wildcards, input: by_operator(keyed(input.dataset, -3)),
        attribution=lambda wildcards, input: by_operator(keyed(input.attribution, -3)),
        rankings=lambda wildcards, input: by_operator(keyed(input.rankings, -3)),
        mean_cache=lambda wildcards, input: keyed(input.mean_cache, -2),
        random_seeds=config["random_seeds"],
        bootstrap=config["bootstrap"],
        seed=config["seed"],
    resources:
        **model_job(minutes=20),
    shell:
        in_turn(
            "faithfulness {params.model:q} {params.late_from:q} --operator {params.operators[#]:q}"
            " --dataset {params.dataset[#]:q} --attribution {params.attribution[#]:q}"
            " --rankings {params.rankings[#]:q} --mean-cache {params.mean_cache:q}"
            " --random-seeds {params.random_seeds} --bootstrap {params.bootstrap} --seed {params.seed}"
            " --output {output.tables[#]:q}",
            turns=len(OPERATORS),
        )
