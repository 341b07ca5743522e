"""Attention heads: exact patching in all cells of a model, and the overlap of the formats' best heads, per operator.

Only if the configuration names `heads`.
"""

if config.get("heads"):
    HEADS = [every_cell("<results>/{model}/{format}/{operator}/heads.parquet"), -3, -2]
    HEAD_OVERLAP = "<results>/{model}/shared/{operator}/head_overlap.parquet"
    FIGURES["heads heads"] = ANSWERS["heads"] = MODELS, {
        "heads": HEADS,
        "head_overlap": [every_operator(HEAD_OVERLAP), -2],
    }
    TABLES += expand("<results>/{model}/{format}/{operator}/heads.parquet", **CELLS)
    TABLE_JOBS["head-overlap"] = {
        "inputs": {
            "probes": [onset_probes, -2],
            "effects": ["<results>/{model}/shared/{operator}/head_effects.safetensors"],
        },
        "outputs": {"output": HEAD_OVERLAP},
        "settings": settings("late_from", "heads", "bootstrap", "membership", "seed"),
        "resources": {"mem_mb": 2000},
    }


# One job for all cells: reading the model takes longer than patching its heads.
rule heads:
    input:
        model_files="<results>/{model}/model_files.parquet",
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt_tables=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
    output:
        output=every_cell("<results>/{model}/{format}/{operator}/heads.parquet"),
        effects_output=every_operator("<results>/{model}/shared/{operator}/head_effects.safetensors"),
    log:
        "<results>/logs/heads/{model}.log",
    benchmark:
        "<results>/benchmarks/heads/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heads"),
        model=model_options,
        files=run_files(turns=len(OPERATORS), datasets=-3, corrupt_tables=-3),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn("heads {params.model:q} {params.files[#]:q}", turns=len(OPERATORS))
