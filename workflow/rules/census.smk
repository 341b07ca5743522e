"""Census: what the model answers, per (model, format, operator)."""

CENSUS = expand("results/{model}/{format}/{operator}/census.parquet", **CELLS)
TABLES += CENSUS
ANSWERS["census"] = MODELS, {
    "census": [
        every_cell("results/{model}/{format}/{operator}/census.parquet"),
        -3,
        -2,
    ],
}


rule census:
    input:
        model="results/{model}/model_files.parquet",
        table=table_of,
    output:
        "results/{model}/{format}/{operator}/census.parquet",
    log:
        "results/logs/census/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/census/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("census"),
        model=model_options,
        template=lambda wildcards: config["formats"][wildcards.format]["templates"][wildcards.operator],
        asked=asked,
        pairs=config["census_pairs"],
        seed=config["seed"],
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance census {params.model:q} --template={params.template:q}"
        " --operator {wildcards.operator:q} {params.asked:q}"
        " --pairs {params.pairs} --seed {params.seed} --output {output:q} 2> {log:q}"


rule census_all:
    input:
        CENSUS,
    localrule: True
