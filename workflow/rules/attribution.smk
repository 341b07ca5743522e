"""Stage 1 of the ranking, per (model, format, operator): attribution to every late neuron."""

TARGETS += expand("<results>/{model}/{format}/{operator}/attribution.parquet", **CELLS)


rule attribution:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        corrupt_table="<results>/{model}/{format}/{operator}/corrupt.parquet",
    output:
        "<results>/{model}/{format}/{operator}/attribution.parquet",
    log:
        "<results>/logs/attribution/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/attribution/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("attribution"),
        model=model_options,
        settings=settings("late_from", "candidates", "ranking"),
    resources:
        **model_job("attribution"),
    shell:
        "python -m form_invariance attribution {params.model:q} --model-files {input.model_files:q}"
        " --dataset {input.dataset:q} --corrupt-table {input.corrupt_table:q} {params.settings:q}"
        " --output {output:q} 2> {log:q}"
