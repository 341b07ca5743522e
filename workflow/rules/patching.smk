"""Stages 1 and 2, per (model, format, operator): attribution, then exact patching of the candidates; then the ranking."""

TABLES += expand("<results>/{model}/{format}/{operator}/attribution.parquet", **CELLS)
TABLES += expand("<results>/{model}/{format}/{operator}/indirect_effects.safetensors", **CELLS)

TABLE_JOBS["ranking"] = {
    "inputs": {
        "attribution": ["<results>/{model}/{format}/{operator}/attribution.parquet"],
        "effects": ["<results>/{model}/{format}/{operator}/indirect_effects.safetensors"],
    },
    "outputs": {"output": "<results>/{model}/{format}/{operator}/ranking.parquet"},
    "resources": {"mem_mb": 1000, "minutes": 3},
}


rule patching:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        corrupt_table="<results>/{model}/{format}/{operator}/corrupt.parquet",
    output:
        attribution="<results>/{model}/{format}/{operator}/attribution.parquet",
        effects="<results>/{model}/{format}/{operator}/indirect_effects.safetensors",
    log:
        "<results>/logs/patching/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/patching/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=[source_digest("attribution"), source_digest("patching")],
        model=model_options,
        files=file_options(),
        ranking=settings("late_from", "candidates"),
        late_from=settings("late_from"),
    resources:
        **model_job("patching"),
    shell:
        in_turn(
            "attribution {params.model:q} {params.files:q} {params.ranking:q} --output {output.attribution:q}",
            "patching {params.model:q} {params.files:q} {params.late_from:q} --attribution {output.attribution:q}"
            " --output {output.effects:q}",
        )


rule rankings_all:
    input:
        expand("<results>/{model}/{format}/{operator}/ranking.parquet", **CELLS),
        expand("<results>/{model}/preflight.parquet", model=MODELS),
    localrule: True
