"""Stage 2 of the ranking, per (model, format, operator): exact patching of the candidates; then the ranking."""

RANKED = ["indirect_effects.safetensors", "ranking.parquet"]
TARGETS += expand("<results>/{model}/{format}/{operator}/{table}", table=RANKED, **CELLS)


rule patching:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        corrupt="<results>/{model}/{format}/{operator}/corrupt.parquet",
        attribution="<results>/{model}/{format}/{operator}/attribution.parquet",
    output:
        "<results>/{model}/{format}/{operator}/indirect_effects.safetensors",
    log:
        "<results>/logs/patching/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/patching/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("patching"),
        model=model_options,
        settings=settings("late_from"),
    resources:
        **model_job("patching"),
    shell:
        "python -m form_invariance patching {params.model:q} --model-files {input.model_files:q}"
        " --dataset {input.dataset:q} --corrupt-table {input.corrupt:q} --attribution {input.attribution:q}"
        " {params.settings:q} --output {output:q} 2> {log:q}"


rule ranking:
    input:
        attribution="<results>/{model}/{format}/{operator}/attribution.parquet",
        effects="<results>/{model}/{format}/{operator}/indirect_effects.safetensors",
    output:
        "<results>/{model}/{format}/{operator}/ranking.parquet",
    log:
        "<results>/logs/ranking/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/ranking/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("ranking"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance ranking --attribution {input.attribution:q} --effects {input.effects:q}"
        " --output {output:q} 2> {log:q}"


rule rankings_all:
    input:
        expand("<results>/{model}/{format}/{operator}/ranking.parquet", **CELLS),
        expand("<results>/{model}/preflight.parquet", model=MODELS),
    localrule: True
