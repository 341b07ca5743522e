"""Probes of the answer and of the operands at the last token, per (model, operator)."""

ARRIVAL_PROBES = every_operator("<results>/{model}/shared/{operator}/arrival_probes.parquet")
FIGURES["arrival_probes"] = Figure("residual_exchange", ARRIVAL_PROBES)
ANSWERS["residual_exchange"] += ARRIVAL_PROBES
TARGETS += expand(ARRIVAL_PROBES, model=MODELS)


rule arrival_probes:
    input:
        model_files="<results>/{model}/model_files.parquet",
        censuses=every_format("<results>/{model}/{format}/{operator}/census.parquet"),
    output:
        "<results>/{model}/shared/{operator}/arrival_probes.parquet",
    log:
        "<results>/logs/arrival_probes/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/arrival_probes/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("arrival-probes"),
        model=model_options,
        settings=settings("seed", prompts="probe_prompts"),
    resources:
        **model_job("arrival_probes", extra_mb=2000),
    shell:
        "python -m form_invariance arrival-probes {params.model:q} --model-files {input.model_files:q}"
        " --censuses {input.censuses:q} {params.settings:q} --output {output:q} 2> {log:q}"
