"""The report: one HTML file with every question, answered from the tables; and the neuron browser."""


rule browser:
    input:
        cells_of("results/{model}/{format}/{operator}/ranking.parquet", format=FORMATS, operator=OPERATORS),
        cells_of("results/{model}/{format}/{operator}/heuristics.parquet", format=FORMATS, operator=OPERATORS),
        cells_of("results/{model}/{format}/{operator}/neuron_effects.parquet", format=FORMATS, operator=OPERATORS),
        cells_of(
            "results/{model}/{format}/{operator}/activation_maps.safetensors", format=FORMATS, operator=OPERATORS
        ),
    output:
        "results/browser/{model}.html",
    log:
        "results/logs/browser/{model}.log",
    benchmark:
        "results/benchmarks/browser/{model}.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("browser"),
        models=MODELS,
        formats=FORMATS,
        operators=named(OPERATORS, config["operators"].values()),
        k=config["heuristic_k"],
    threads: 1
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance browser --model {wildcards.model:q} --models {params.models:q}"
        " --formats {params.formats:q} --operators {params.operators:q} --k {params.k} --output {output:q} 2> {log:q}"


rule report:
    input:
        figures(),
        tables(),
        browsers(),
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    benchmark:
        "results/benchmarks/report.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("report"),
        models=MODELS,
        formats=FORMATS,
        operators=OPERATORS,
        k=config["heuristic_k"],
        optional=optional_stages(),
        configuration=lambda wildcards: yaml.safe_dump(config, sort_keys=False),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance report --models {params.models:q} --formats {params.formats:q}"
        " --operators {params.operators:q} --k {params.k} {params.optional:q}"
        " --configuration {params.configuration:q}"
        " --output {output:q} 2> {log:q}"
