"""The report: one HTML file with every question, answered from the tables."""

import yaml
from jinja2 import Template

# The page shows a caption once for all models; Snakemake's report, one for each.
CAPTIONS = {
    figure: Template((ROOT / f"workflow/report/{file}.rst").read_text(encoding="utf-8"))
    .render(snakemake={"wildcards": {"model": "the model", "figure": figure}, "config": config})
    .strip()
    for figure, file in [*((figure, "figure") for figure in FIGURES), ("summary", "summary")]
}


rule report:
    input:
        TARGETS,
        PAGES,
        answers=expand("<results>/{model}/answers.json", model=MODELS),
        figures=expand("<results>/figures/{model}/{figure}.svg", model=MODELS, figure=FIGURES),
        compared="<results>/figures/summary.svg",
        paper_tables=expand("<results>/tables/{table}.csv", table=PAPER_TABLES if NUMBER_OPERATORS else []),
    output:
        "<results>/report.html",
    log:
        "<results>/logs/report.log",
    benchmark:
        "<results>/benchmarks/report.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("report"),
        captions=lambda wildcards: json.dumps(CAPTIONS),
        folder=subpath(output[0], parent=True),
        configuration=lambda wildcards: yaml.safe_dump(config, sort_keys=False),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance report --answers {input.answers:q} --figures {input.figures:q}"
        " --compared {input.compared:q} --paper-tables {input.paper_tables:q}"
        " --captions {params.captions:q} --benchmarks {params.folder:q}/benchmarks --configuration {params.configuration:q} --output {output:q} 2> {log:q}"
