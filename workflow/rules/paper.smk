"""The paper's tables for all models, as CSV, Markdown and LaTeX."""

PAPER_TABLES = ["census", "probe", "agreement", "heuristic_summary", "significance", "families"]
PAPER_FILES = expand("<results>/tables/{table}.{extension}", table=PAPER_TABLES, extension=["csv", "md", "tex"])
TABLES += PAPER_FILES if NUMBER_OPERATORS else []
NUMBER_CELLS = CELLS | {"operator": NUMBER_OPERATORS}


rule paper_tables:
    input:
        census=expand("<results>/{model}/{format}/{operator}/census.parquet", **NUMBER_CELLS),
        probes=expand("<results>/{model}/{folder}/probe.parquet", model=MODELS, folder=[*FORMATS, "shared"]),
        heuristics=expand("<results>/{model}/{format}/{operator}/heuristics.parquet", **NUMBER_CELLS),
        agreement=expand("<results>/{model}/shared/{operator}/agreement.parquet", **NUMBER_CELLS),
        labelled=expand("<results>/{model}/shared/{operator}/labelled.parquet", **NUMBER_CELLS),
    output:
        PAPER_FILES,
    log:
        "<results>/logs/paper_tables.log",
    benchmark:
        "<results>/benchmarks/paper_tables.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("paper-tables"),
        sources=lambda wildcards: [f"{name}={model['source']}" for name, model in config["models"].items()],
        census=lambda wildcards, input: keyed(input.census, -4, -3, -2),
        probes=lambda wildcards, input: keyed(input.probes, -3, -2),
        heuristics=lambda wildcards, input: keyed(input.heuristics, -4, -3, -2),
        agreement=lambda wildcards, input: keyed(input.agreement, -4, -2),
        labelled=lambda wildcards, input: keyed(input.labelled, -4, -2),
        folder=subpath(output[0], parent=True),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance paper-tables --source {params.sources:q} --census {params.census:q}"
        " --probes {params.probes:q} --heuristics {params.heuristics:q} --agreement {params.agreement:q}"
        " --labelled {params.labelled:q} --output-folder {params.folder:q} 2> {log:q}"
