"""Linear probes of the answer: every position in one format, and the last token over all formats."""

PROBES = every_format("results/{model}/{format}/probe.parquet")
TABLES += expand("results/{model}/{folder}/probe.parquet", model=MODELS, folder=[*FORMATS, "shared"])
FIGURES["probe probe"] = MODELS, {"probe": [PROBES, -2], "across": ["results/{model}/shared/probe.parquet"]}
FIGURES["probe probe_positions"] = MODELS, {"probe": [PROBES, -2]}
ANSWERS["probe"] = MODELS, {"probe": [PROBES, -2]}


rule probe:
    input:
        model="results/{model}/model_files.parquet",
        census=every_operator("results/{model}/{format}/{operator}/census.parquet"),
    output:
        "results/{model}/{format}/probe.parquet",
    log:
        "results/logs/probe/{model}/{format}.log",
    benchmark:
        "results/benchmarks/probe/{model}/{format}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("probe"),
        model=model_options,
        census=lambda wildcards, input: keyed(input.census, -3, -2),
        prompts=config["probe_prompts"],
        seed=config["seed"],
    resources:
        **model_job(minutes=20, extra_mb=2000),
    shell:
        "python -m form_invariance probe {params.model:q} --census {params.census:q}"
        " --prompts {params.prompts} --seed {params.seed} --output {output:q} 2> {log:q}"


use rule probe as probe_across_formats with:
    input:
        model="results/{model}/model_files.parquet",
        census=every_cell("results/{model}/{format}/{operator}/census.parquet"),
    output:
        "results/{model}/shared/probe.parquet",
    log:
        "results/logs/probe/{model}/across_formats.log",
    benchmark:
        "results/benchmarks/probe/{model}/across_formats.tsv"


rule probes_all:
    input:
        expand("results/{model}/{folder}/probe.parquet", model=MODELS, folder=[*FORMATS, "shared"]),
    localrule: True
