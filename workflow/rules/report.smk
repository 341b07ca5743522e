"""The report: one HTML file with every question, answered from the tables."""

import yaml
from jinja2 import ChainableUndefined, Template

PAGES.append("<results>/report.html")
DRAWN = sorted({drawn.split()[1] for drawn in FIGURES})
# The page shows a caption once for all models; Snakemake's report, one for each.
CAPTIONS = {
    name: Template(path.read_text(encoding="utf-8"), undefined=ChainableUndefined).render(
        snakemake={"wildcards": {"model": "the model"}, "config": config}
    )
    for name in DRAWN
    if (path := ROOT / f"workflow/report/{name}.rst").exists()
}


rule answers:
    input:
        unpack(
            lambda wildcards: {
                name: expand(paths, model=wildcards.model)
                for models, inputs in ANSWERS.values()
                if wildcards.model in models
                for name, (paths, *_) in inputs.items()
            }
        ),
    output:
        "<results>/{model}/answers.json",
    log:
        "<results>/logs/answers/{model}.log",
    benchmark:
        "<results>/benchmarks/answers/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("answers", *[f"stages.{stage}.answer" for stage in ANSWERS]),
        stages=lambda wildcards: [stage for stage, (models, _) in ANSWERS.items() if wildcards.model in models],
        tables=table_options({name: given for _, inputs in ANSWERS.values() for name, given in inputs.items()}),
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance answers --stages {params.stages:q} --tables {params.tables:q}"
        " {params.k:q} --output {output:q} 2> {log:q}"


rule report:
    input:
        TABLES,
        browsers=expand("<results>/browser/{model}.html", model=MODELS),
        explained="<results>/explained.html",
        answers=expand("<results>/{model}/answers.json", model=MODELS),
        figures=[
            f"<results>/figures/{model}/{drawn.split()[1]}.svg"
            for drawn, (models, _) in FIGURES.items()
            for model in models or []
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
