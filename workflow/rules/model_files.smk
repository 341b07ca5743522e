"""Check that a model is read correctly, and record digests of its files, which its other jobs check."""

TARGETS += expand("<results>/{model}/model_files.parquet", model=MODELS)


rule model_files:
    output:
        table="<results>/{model}/model_files.parquet",
        tokenizer_output="<results>/{model}/tokenizer.json",
    log:
        "<results>/logs/model_files/{model}.log",
    benchmark:
        "<results>/benchmarks/model_files/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("model-files"),
        model=lambda wildcards: run_options(config["models"][wildcards.model], "dtype"),
        # By file name, so that a folder that is moved re-runs nothing.
        files=lambda wildcards: [
            f"{PurePosixPath(path).name} {FILES[path]}"
            for path in file_digests.of_model(config["models"][wildcards.model])
        ],
    resources:
        **{
            **table_job(mem_mb=1000),
            "mem_mb": lambda wildcards, attempt: job_sizes.proof_mb(config["models"][wildcards.model], attempt),
            "runtime": lambda wildcards, attempt: job_sizes.proof_minutes(
                config["models"][wildcards.model], attempt
            ),
        },
    shell:
        "python -m form_invariance model-files {params.model:q} --model-name {wildcards.model:q}"
        " --output {output.table:q} --tokenizer-output {output.tokenizer_output:q} 2> {log:q}"
