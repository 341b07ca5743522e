"""Two rankings of the same neurons compared: by each first stage and exactly; in a lower precision and in float32."""

# Neurons of a layer; None for a model that is not on this machine.
WIDTHS = {name: model_checks.width(model["source"]) for name, model in config["models"].items()}
MOST_PATCHED = config_check.most_patched(config)
# Models of which every late neuron is patched exactly.
AUDITED = [name for name, width in WIDTHS.items() if width is not None and width <= MOST_PATCHED]
TABLES += expand("<results>/{model}/shared/audit.parquet", model=AUDITED)
FIGURES["audit audit"] = ANSWERS["audit"] = AUDITED, {"audit": ["<results>/{model}/shared/audit.parquet"]}
# Models that do not run in float32; none if no prompts are given.
LOWER = [name for name, model in config["models"].items() if model.get("dtype", "float32") != "float32"]
if config["precision_prompts"]:
    TABLES += expand("<results>/{model}/{format}/{operator}/precision.parquet", **{**CELLS, "model": LOWER})


rule audit:
    input:
        model="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
    output:
        "<results>/{model}/shared/audit.parquet",
    log:
        "<results>/logs/audit/{model}.log",
    benchmark:
        "<results>/benchmarks/audit/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        **RUN,
        code=source_digest("audit"),
        dataset=lambda wildcards, input: keyed(input.dataset, -3, -2),
        corrupt=lambda wildcards, input: keyed(input.corrupt, -3, -2),
        rankings=lambda wildcards, input: keyed(input.rankings, -3, -2),
        k=setting("k"),
    resources:
        **model_job(minutes=20),
    shell:
        in_turn(
            f"audit {RUN_OPTIONS} --dataset {{params.dataset:q}} --corrupt-table {{params.corrupt:q}}"
            " --rankings {params.rankings:q} {params.k:q} --output {output:q}"
        )


rule precision:
    input:
        model="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"),
        attribution=every_cell("<results>/{model}/{format}/{operator}/attribution.parquet"),
    output:
        every_cell("<results>/{model}/{format}/{operator}/precision.parquet"),
    log:
        "<results>/logs/precision/{model}.log",
    benchmark:
        "<results>/benchmarks/precision/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        **RUN,
        code=source_digest("precision"),
        datasets=lambda wildcards, input: keyed(input.datasets, -3, -2),
        corrupt=lambda wildcards, input: keyed(input.corrupt, -3, -2),
        attribution=lambda wildcards, input: keyed(input.attribution, -3, -2),
        prompts=setting("precision_prompts", "prompts"),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            f"precision {RUN_OPTIONS} --datasets {{params.datasets:q}} --corrupt-tables {{params.corrupt:q}}"
            " --attribution {params.attribution:q} {params.prompts:q} --output {output:q}"
        )
