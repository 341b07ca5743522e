"""Stage 2 of the ranking, per (model, format, operator): exact patching of the candidates, and their ranking."""

RANKED = ["indirect_effects.safetensors", "ranking.parquet"]
TARGETS += expand("<results>/{model}/{format}/{operator}/{table}", table=RANKED, **CELLS)


rule patching:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        corrupt_table="<results>/{model}/{format}/{operator}/corrupt.parquet",
        attribution="<results>/{model}/{format}/{operator}/attribution.parquet",
    output:
        effects="<results>/{model}/{format}/{operator}/indirect_effects.safetensors",
        ranking_output="<results>/{model}/{format}/{operator}/ranking.parquet",
    log:
        "<results>/logs/patching/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/patching/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("patching"),
        model=lambda wildcards: model_options(wildcards, "readout"),
        settings=settings("late_from", "ranking"),
    resources:
        **model_job("patching"),
    shell:
        "python -m form_invariance patching {params.model:q} --model-files {input.model_files:q}"
        " --dataset {input.dataset:q} --corrupt-table {input.corrupt_table:q} --attribution {input.attribution:q}"
        " {params.settings:q} --output {output.effects:q} --ranking-output {output.ranking_output:q} 2> {log:q}"
