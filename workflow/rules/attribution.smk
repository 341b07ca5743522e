"""Stage 1: attribution patching, per (model, format, operator); with one shard, in the job of exact patching."""

TABLES += expand("<results>/{model}/{format}/{operator}/attribution.parquet", **CELLS)
SHARDS = config["patching_shards"]
# The params of a job that runs a model and ranks or patches its late layers, and its options.
RUN = dict(model=model_options, running=running_options, late_from=setting("late_from"), probes=probe_options)
RUN_OPTIONS = (
    "{params.model:q} --model-files {input.model:q} {params.running:q} {params.late_from:q} {params.probes:q}"
)
ATTRIBUTION = (
    f"attribution {RUN_OPTIONS}"
    " --dataset {input.dataset:q} --corrupt-table {input.corrupt:q} {params.candidates:q} {params.method:q}"
    " --output {output.attribution:q}"
)

if SHARDS > 1:

    rule attribution:
        input:
            model="<results>/{model}/model_files.parquet",
            probes=onset_probes,
            dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
            corrupt="<results>/{model}/{format}/{operator}/corrupt.parquet",
        output:
            attribution="<results>/{model}/{format}/{operator}/attribution.parquet",
        log:
            "<results>/logs/attribution/{model}/{format}/{operator}.log",
        benchmark:
            "<results>/benchmarks/attribution/{model}/{format}/{operator}.tsv"
        conda:
            "../../envs/gpu.yaml"
        params:
            **RUN,
            code=source_digest("attribution"),
            candidates=setting("candidates"),
            method=setting("ranking_method"),
        resources:
            **model_job(minutes=10),
        shell:
            in_turn(ATTRIBUTION)
