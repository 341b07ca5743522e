"""Census: what the model answers, per (model, format, operator)."""

CENSUS = every_cell("<results>/{model}/{format}/{operator}/census.parquet")
TARGETS += expand(CENSUS, model=MODELS)
ANSWERS["census"] = CENSUS


rule census:
    input:
        model_files="<results>/{model}/model_files.parquet",
    output:
        "<results>/{model}/{format}/{operator}/census.parquet",
    log:
        "<results>/logs/census/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/census/{model}/{format}/{operator}.tsv"
    priority: 2
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("census"),
        model=model_options,
        template=lambda wildcards: config_check.template_of(config, wildcards.format, wildcards.operator),
        asked=lambda wildcards: ASKED[wildcards.operator],
        settings=settings("seed", pairs="census_pairs"),
    resources:
        **model_job("census"),
    shell:
        "python -m form_invariance census {params.model:q} --model-files {input.model_files:q}"
        " --model-name {wildcards.model:q} --format {wildcards.format:q} --operator {wildcards.operator:q}"
        " --template={params.template:q} {params.asked:q} {params.settings:q} --output {output:q} 2> {log:q}"
