"""The report: one HTML file with every question, answered from the tables."""


rule report_page:
    input:
        figures(),
        tables(),
    output:
        "results/report.html",
    log:
        "results/logs/report_page.log",
    benchmark:
        "results/benchmarks/report_page.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("report"),
        models=MODELS,
        formats=FORMATS,
        operators=OPERATORS,
        k=config["heuristic_k"],
        configuration=lambda wildcards: yaml.safe_dump(config, sort_keys=False),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance report --models {params.models:q} --formats {params.formats:q}"
        " --operators {params.operators:q} --k {params.k} --configuration {params.configuration:q}"
        " --output {output:q} 2> {log:q}"
