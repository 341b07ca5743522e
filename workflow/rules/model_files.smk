"""Digests of a model's files, which every job of the model compares with what it finds, per model."""

TABLES += expand("<results>/{model}/model_files.parquet", model=MODELS)


rule model_files:
    input:
        lambda wildcards: as_inputs(model_checks.local_files(config["models"][wildcards.model]["source"])),
    output:
        "<results>/{model}/model_files.parquet",
    log:
        "<results>/logs/model_files/{model}.log",
    benchmark:
        "<results>/benchmarks/model_files/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("model-files"),
        model=lambda wildcards: source_options(config["models"][wildcards.model]),
        packaged=lambda wildcards: model_checks.packaged_digests(config["models"][wildcards.model]["source"]),
        changes=lambda wildcards: changes_of(model_checks.local_files(config["models"][wildcards.model]["source"])),
    resources:
        **{**table_job(mem_mb=1000), "runtime": model_job(minutes=10)["runtime"]},
    shell:
        "python -m form_invariance model-files {params.model:q} --output {output:q} 2> {log:q}"
