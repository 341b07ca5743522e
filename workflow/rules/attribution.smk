"""Stage 1: attribution patching, per (model, format, operator); with one shard, in the job of exact patching."""

TABLES += expand("<results>/{model}/{format}/{operator}/attribution.parquet", **CELLS)
SHARDS = config["patching_shards"]
ATTRIBUTION = "attribution {params.model:q} {params.files:q} {params.ranking:q} --output {output.attribution:q}"

if SHARDS > 1:

    rule attribution:
        input:
            model_files="<results>/{model}/model_files.parquet",
            probes=onset_probes,
            dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
            corrupt_table="<results>/{model}/{format}/{operator}/corrupt.parquet",
        output:
            attribution="<results>/{model}/{format}/{operator}/attribution.parquet",
        log:
            "<results>/logs/attribution/{model}/{format}/{operator}.log",
        benchmark:
            "<results>/benchmarks/attribution/{model}/{format}/{operator}.tsv"
        conda:
            "../../envs/gpu.yaml"
        params:
            code=source_digest("attribution"),
            model=model_options,
            files=run_files(),
            ranking=settings("late_from", "candidates", "ranking_method"),
        resources:
            **model_job(minutes=10),
        shell:
            in_turn(ATTRIBUTION)
