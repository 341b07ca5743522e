"""Figures, from the tables behind them."""


rule prompt_formats:
    input:
        model=f"results/{MODELS[0]}/model_files.parquet",
    output:
        figure("prompt_formats"),
    log:
        "results/logs/figures/prompt_formats.log",
    benchmark:
        "results/benchmarks/figures/prompt_formats.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-prompts"),
        model=tokenizer_options(FIRST_MODEL),
        templates=lambda wildcards: template_options(),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-prompts {params.model:q} {params.templates:q}"
        " --output {output:q} 2> {log:q}"


rule probe_figure:
    input:
        probes=cells_of("results/{model}/{format}/probe.parquet", format=FORMATS),
        across="results/{model}/shared/probe.parquet",
    output:
        layers=figure("{model}/probe"),
        positions=figure("{model}/probe_positions"),
    log:
        "results/logs/figures/{model}/probe.log",
    benchmark:
        "results/benchmarks/figures/{model}/probe.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-probe"),
        probes=lambda wildcards, input: named(FORMATS, input.probes),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-probe --probes {params.probes:q} --across {input.across:q}"
        " --title {wildcards.model:q} --output {output.layers:q} --positions-output {output.positions:q} 2> {log:q}"


rule jaccard_figure:
    input:
        overlap=cells_of("results/{model}/shared/{operator}/overlap.parquet", operator=OPERATORS),
        reliability=cells_of("results/{model}/shared/{operator}/reliability.parquet", operator=OPERATORS),
    output:
        figure("{model}/jaccard"),
    log:
        "results/logs/figures/{model}/jaccard.log",
    benchmark:
        "results/benchmarks/figures/{model}/jaccard.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-jaccard"),
        overlap=lambda wildcards, input: keyed(input.overlap, -2),
        reliability=lambda wildcards, input: keyed(input.reliability, -2),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-jaccard --overlap {params.overlap:q}"
        " --reliability {params.reliability:q} --title {wildcards.model:q} --output {output:q} 2> {log:q}"


rule interventions_figure:
    input:
        cells_of(
            "results/{model}/{format}/{operator}/interventions.parquet",
            format=FORMATS,
            operator=OPERATORS,
        ),
    output:
        figure("{model}/{intervention}", caption="interventions"),
    log:
        "results/logs/figures/{model}/{intervention}.log",
    benchmark:
        "results/benchmarks/figures/{model}/{intervention}.tsv"
    wildcard_constraints:
        intervention="keep_only|knockout",
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-interventions"),
        tables=lambda wildcards, input: keyed(input, -3, -2),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-interventions --intervention {wildcards.intervention}"
        " --tables {params.tables:q} --title {wildcards.model:q} --output {output:q} 2> {log:q}"


rule heuristics_figure:
    input:
        heuristics=cells_of(
            "results/{model}/{format}/{operator}/heuristics.parquet",
            format=FORMATS,
            operator=OPERATORS,
        ),
        agreement=cells_of("results/{model}/shared/{operator}/agreement.parquet", operator=OPERATORS),
        labelled=cells_of("results/{model}/shared/{operator}/labelled.parquet", operator=OPERATORS),
    output:
        figure("{model}/heuristics"),
    log:
        "results/logs/figures/{model}/heuristics.log",
    benchmark:
        "results/benchmarks/figures/{model}/heuristics.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-heuristics"),
        heuristics=lambda wildcards, input: keyed(input.heuristics, -3, -2),
        agreement=lambda wildcards, input: keyed(input.agreement, -2),
        labelled=lambda wildcards, input: keyed(input.labelled, -2),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-heuristics --heuristics {params.heuristics:q}"
        " --agreement {params.agreement:q} --labelled {params.labelled:q} --title {wildcards.model:q}"
        " --output {output:q} 2> {log:q}"


rule transfer_figure:
    input:
        cells_of(
            "results/{model}/transfer/{operator}/{direction}.parquet",
            operator=OPERATORS,
            direction=DIRECTIONS,
        ),
    output:
        figure("{model}/transfer"),
    log:
        "results/logs/figures/{model}/transfer.log",
    benchmark:
        "results/benchmarks/figures/{model}/transfer.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-transfer"),
        tables=lambda wildcards, input: keyed(input, -2, -1),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-transfer --tables {params.tables:q} --title {wildcards.model:q}"
        " --output {output:q} 2> {log:q}"


rule heads_figure:
    input:
        heads=cells_of(
            "results/{model}/{format}/{operator}/heads.parquet",
            format=FORMATS,
            operator=OPERATORS,
        ),
        overlap=cells_of("results/{model}/shared/{operator}/head_overlap.parquet", operator=OPERATORS),
    output:
        figure("{model}/heads"),
    log:
        "results/logs/figures/{model}/heads.log",
    benchmark:
        "results/benchmarks/figures/{model}/heads.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-heads"),
        heads=lambda wildcards, input: keyed(input.heads, -3, -2),
        overlap=lambda wildcards, input: keyed(input.overlap, -2),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-heads --heads {params.heads:q} --overlap {params.overlap:q}"
        " --title {wildcards.model:q} --output {output:q} 2> {log:q}"


rule planted_figure:
    input:
        "results/planted.parquet",
    output:
        figure("planted"),
    log:
        "results/logs/figures/planted.log",
    benchmark:
        "results/benchmarks/figures/planted.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-planted"),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-planted --table {input:q} --output {output:q} 2> {log:q}"


rule summary_figure:
    input:
        overlap=expand("results/{model}/shared/{operator}/overlap.parquet", model=MODELS, operator=OPERATORS),
        reliability=expand(
            "results/{model}/shared/{operator}/reliability.parquet", model=MODELS, operator=OPERATORS
        ),
        interventions=expand("results/{model}/{format}/{operator}/interventions.parquet", **CELLS),
        transfer=transfer_tables(),
    output:
        figure("summary"),
    log:
        "results/logs/figures/summary.log",
    benchmark:
        "results/benchmarks/figures/summary.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-summary"),
        overlap=lambda wildcards, input: keyed(input.overlap, -4, -2),
        reliability=lambda wildcards, input: keyed(input.reliability, -4, -2),
        interventions=lambda wildcards, input: keyed(input.interventions, -4, -3, -2),
        transfer=lambda wildcards, input: keyed(input.transfer, -4, -2, -1),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-summary --overlap {params.overlap:q}"
        " --reliability {params.reliability:q} --interventions {params.interventions:q}"
        " --transfer {params.transfer:q} --output {output:q} 2> {log:q}"
