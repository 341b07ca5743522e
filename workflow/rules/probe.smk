"""Linear probes of the answer, per model: every position in each format, and the last token over all formats."""

PROBES = every_format("<results>/{model}/{format}/probe.parquet")
TABLES += expand("<results>/{model}/{folder}/probe.parquet", model=MODELS, folder=[*FORMATS, "shared"])
FIGURES["probe probe"] = MODELS, {"probe": [PROBES, -2], "across": ["<results>/{model}/shared/probe.parquet"]}
FIGURES["probe probe_positions"] = MODELS, {"probe": [PROBES, -2]}
ANSWERS["probe"] = MODELS, {"probe": [PROBES, -2]}


rule probe:
    input:
        model_files="<results>/{model}/model_files.parquet",
        census=every_cell("<results>/{model}/{format}/{operator}/census.parquet"),
    output:
        tables=[*PROBES, "<results>/{model}/shared/probe.parquet"],
    log:
        "<results>/logs/probe/{model}.log",
    benchmark:
        "<results>/benchmarks/probe/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("probe"),
        model=model_options,
        # Of each format, then of all.
        census=lambda wildcards, input: [
            [item for item in keyed(input.census, *CELL) if item.startswith(folder)]
            for folder in [*(f"{name}/" for name in FORMATS), ""]
        ],
        settings=settings("seed", prompts="probe_prompts"),
    resources:
        **model_job("probe", extra_mb=2000),
    shell:
        in_turn(
            "probe {params.model:q} --model-files {input.model_files:q} --census {params.census[#]:q}"
            " {params.settings:q} --output {output.tables[#]:q}",
            turns=len(FORMATS) + 1,
        )


rule probes_all:
    input:
        expand("<results>/{model}/{folder}/probe.parquet", model=MODELS, folder=[*FORMATS, "shared"]),
    localrule: True
