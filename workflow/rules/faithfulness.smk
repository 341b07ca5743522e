"""Areas under the faithfulness curve, in all operators of a model."""

FAITHFULNESS = every_operator("<results>/{model}/shared/{operator}/faithfulness.parquet")
FIGURES["faithfulness faithfulness"] = ANSWERS["faithfulness"] = MODELS, {"faithfulness": [FAITHFULNESS, -2]}
TABLES += expand(FAITHFULNESS, model=MODELS)


rule faithfulness:
    input:
        model_files="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        attribution=every_cell("<results>/{model}/{format}/{operator}/attribution.parquet"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
        mean_cache=every_format("<results>/{model}/{format}/mean_cache.safetensors"),
    output:
        output=FAITHFULNESS,
    log:
        "<results>/logs/faithfulness/{model}.log",
    benchmark:
        "<results>/benchmarks/faithfulness/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("faithfulness"),
        model=model_options,
        operators=OPERATORS,
        files=run_files(
            turns=len(OPERATORS), shared=["mean_cache"], dataset=-3, attribution=-3, rankings=-3, mean_cache=-2
        ),
        settings=settings("late_from", "random_seeds", "bootstrap", "seed"),
    resources:
        **model_job(minutes=20),
    shell:
        in_turn(
            "faithfulness {params.model:q} --operator {params.operators[#]:q} {params.files[#]:q}"
            " {params.settings:q}",
            turns=len(OPERATORS),
        )
