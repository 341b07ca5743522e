"""Digests of a model's files, which every job of the model compares with what it finds, per model."""

TABLES += expand("<results>/{model}/model_files.parquet", model=MODELS)


rule model_files:
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
        # By their names, wherever the folder lies.
        files=lambda wildcards: [
            f"{PurePosixPath(path).name} {FILES[path]}"
            for path in file_digests.of_model(config["models"][wildcards.model])
        ],
    resources:
        **{**table_job(mem_mb=1000), "runtime": model_job("model_files")["runtime"]},
    shell:
        "python -m form_invariance model-files {params.model:q} --output {output:q} 2> {log:q}"
