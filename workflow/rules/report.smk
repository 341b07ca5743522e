"""The report: one HTML file with every question, answered from the tables."""

import yaml
from jinja2 import Template

PAGES.append("<results>/report.html")
# The page shows a caption once for all models; Snakemake's report, one for each.
CAPTIONS = {
    figure: Template((ROOT / f"workflow/report/{file}.rst").read_text(encoding="utf-8"))
    .render(snakemake={"wildcards": {"model": "the model", "figure": figure}, "config": config})
    .strip()
    for figure, file in [*((figure, "figure") for figure in FIGURES), ("summary", "summary")]
}


rule report:
    input:
        TABLES,
        browsers=expand("<results>/browser/{model}.html", model=MODELS),
        explained="<results>/explained.html",
        answers=expand("<results>/{model}/answers.json", model=MODELS),
        figures=[
            f"<results>/figures/{model}/{figure}.svg"
            for figure, (_, models, _) in FIGURES.items()
            for model in models
        ],
        compared="<results>/figures/summary.svg",
        paper=expand("<results>/tables/{table}.csv", table=PAPER_TABLES if NUMBER_OPERATORS else []),
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
        answers=lambda wildcards, input: keyed(input.answers, -2),
        figures=lambda wildcards, input: keyed(input.figures, -2, -1),
        compared=lambda wildcards, input: keyed(input.compared, -1),
        paper=lambda wildcards, input: ["--paper-tables", *keyed(input.paper, -1)] if input.paper else [],
        browsers=lambda wildcards, input: ["--browsers", *keyed(input.browsers, -1)] if input.browsers else [],
        captions=lambda wildcards: [f"{name}={text}" for name, text in CAPTIONS.items()],
        folder=subpath(output[0], parent=True),
        configuration=lambda wildcards: yaml.safe_dump(config, sort_keys=False),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance report --answers {params.answers:q}"
        " --figures {params.figures:q} --compared {params.compared:q} {params.paper:q} {params.browsers:q}"
        " --captions {params.captions:q} --benchmarks {params.folder:q}/benchmarks --configuration {params.configuration:q} --output {output:q} 2> {log:q}"
