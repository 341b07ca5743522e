"""Exchange of the residual stream at the last token, per (model, format, operator); shares, layers and contrasts per model."""

RESIDUAL_EXCHANGES = every_cell("<results>/{model}/{format}/{operator}/residual_exchange.parquet")
RESIDUAL = {
    name: f"<results>/{{model}}/shared/residual_{name}.parquet" for name in ("shares", "layers", "contrasts")
}
FIGURES["residual_exchange"] = Figure("residual_exchange", [RESIDUAL["shares"]])
ANSWERS["residual_exchange"] = list(RESIDUAL.values())
EXPLAINED["residual_exchange"] = [RESIDUAL["shares"]]
DECIDING.append(RESIDUAL["contrasts"])
TARGETS += expand([*RESIDUAL_EXCHANGES, *RESIDUAL.values()], model=MODELS)


rule residual_exchange:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        datasets=lambda wildcards: [
            f"<results>/{wildcards.model}/{form}/{operator}/dataset.parquet"
            for form in FORMATS
            for operator in OPERATORS
            if wildcards.format == form or wildcards.operator == operator
        ],
        censuses=every_format("<results>/{model}/{format}/{operator}/census.parquet"),
    output:
        "<results>/{model}/{format}/{operator}/residual_exchange.parquet",
    log:
        "<results>/logs/residual_exchange/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/residual_exchange/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("residual-exchange"),
        model=model_options,
        # A function, because Snakemake would take the fields of a template for wildcards.
        tasks=lambda wildcards: COPYING_TASKS,
        settings=settings("seed"),
    resources:
        **model_job("residual_exchange"),
    shell:
        "python -m form_invariance residual-exchange {params.model:q} --model-files {input.model_files:q}"
        " --dataset {input.dataset:q} --datasets {input.datasets:q} --censuses {input.censuses:q}"
        " --tasks {params.tasks:q} {params.settings:q} --output {output:q} 2> {log:q}"


rule residual_contrasts:
    input:
        RESIDUAL_EXCHANGES,
    output:
        table=RESIDUAL["contrasts"],
        shares_output=RESIDUAL["shares"],
        layers_output=RESIDUAL["layers"],
    log:
        "<results>/logs/residual_contrasts/{model}.log",
    benchmark:
        "<results>/benchmarks/residual_contrasts/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("residual-contrasts"),
        settings=settings("bootstrap", "seed"),
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance residual-contrasts --tables {input:q} {params.settings:q}"
        " --shares-output {output.shares_output:q} --layers-output {output.layers_output:q} --output {output.table:q}"
        " 2> {log:q}"
