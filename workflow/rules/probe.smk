"""Linear probes of the answer: at every position in each format, and at the last token over all formats."""

PROBES = every_format("<results>/{model}/{format}/probe.parquet")
PROBE_ACROSS = "<results>/{model}/shared/probe.parquet"
EVERY_PROBE = [*PROBES, PROBE_ACROSS]
TARGETS += expand(EVERY_PROBE, model=MODELS)
FIGURES["probe"] = Figure("probe", EVERY_PROBE)
FIGURES["probe_positions"] = Figure("probe", PROBES)
ANSWERS["probe"] = PROBES


rule probe:
    input:
        model_files="<results>/{model}/model_files.parquet",
        censuses=every_operator("<results>/{model}/{format}/{operator}/census.parquet"),
    output:
        "<results>/{model}/{format}/probe.parquet",
    log:
        "<results>/logs/probe/{model}/{format}.log",
    benchmark:
        "<results>/benchmarks/probe/{model}/{format}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("probe"),
        model=model_options,
        settings=settings("seed", prompts="probe_prompts"),
    resources:
        **model_job("probe", extra_mb=2000),
    shell:
        "python -m form_invariance probe {params.model:q} --model-files {input.model_files:q}"
        " --censuses {input.censuses:q} {params.settings:q} --output {output:q} 2> {log:q}"


use rule probe as probe_across with:
    input:
        model_files="<results>/{model}/model_files.parquet",
        censuses=CENSUS,
    output:
        PROBE_ACROSS,
    log:
        "<results>/logs/probe_across/{model}.log",
    benchmark:
        "<results>/benchmarks/probe_across/{model}.tsv"
    resources:
        **model_job("probe_across", extra_mb=2000),
