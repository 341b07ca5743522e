"""Areas under the faithfulness curve, in all operators of a model."""

FAITHFULNESS = every_operator("<results>/{model}/shared/{operator}/faithfulness.parquet")
FIGURES["faithfulness faithfulness"] = ANSWERS["faithfulness"] = MODELS, {"faithfulness": [FAITHFULNESS, -2]}
TABLES += expand(FAITHFULNESS, model=MODELS)


rule faithfulness:
    input:
        model="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        attribution=every_cell("<results>/{model}/{format}/{operator}/attribution.parquet"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
        mean_cache=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
    output:
        tables=FAITHFULNESS,
    log:
        "<results>/logs/faithfulness/{model}.log",
    benchmark:
        "<results>/benchmarks/faithfulness/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("faithfulness"),
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        operators=OPERATORS,
        dataset=lambda wildcards, input: by_operator(keyed(input.dataset, -3)),
        attribution=lambda wildcards, input: by_operator(keyed(input.attribution, -3)),
        rankings=lambda wildcards, input: by_operator(keyed(input.rankings, -3)),
        mean_cache=lambda wildcards, input: keyed(input.mean_cache, -2),
        random_seeds=setting("random_seeds"),
        bootstrap=setting("bootstrap"),
        seed=setting("seed"),
    resources:
        **model_job(minutes=20),
    shell:
        in_turn(
            "faithfulness {params.model:q} --model-files {input.model:q} {params.running:q}"
            " {params.late_from:q} {params.probes:q} --operator {params.operators[#]:q}"
            " --dataset {params.dataset[#]:q} --attribution {params.attribution[#]:q}"
            " --rankings {params.rankings[#]:q} --mean-cache {params.mean_cache:q}"
            " {params.random_seeds:q} {params.bootstrap:q} {params.seed:q}"
            " --output {output.tables[#]:q}",
            turns=len(OPERATORS),
        )
