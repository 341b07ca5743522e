"""The paper's tables for all models, as CSV, Markdown and LaTeX."""

PAPER_TABLES = ["census", "probe", "agreement", "heuristic_summary", "significance", "families"]
PAPER_FILES = expand("<results>/tables/{table}.{extension}", table=PAPER_TABLES, extension=["csv", "md", "tex"])
TARGETS += PAPER_FILES if NUMBER_OPERATORS else []
NUMBER_CELLS = CELLS | {"operator": NUMBER_OPERATORS}


rule paper_tables:
    input:
        censuses=expand("<results>/{model}/{format}/{operator}/census.parquet", **NUMBER_CELLS),
        probes=expand(EVERY_PROBE, model=MODELS),
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
        output_folder=subpath(output[0], parent=True),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance paper-tables --tables {input:q} --output-folder {params.output_folder:q} 2> {log:q}"
