"""The questions of the report about a model, answered from its tables."""

# The tables that answer the questions about a model, by stage.
ANSWERED = {
    model: {stage: tables for stage, tables in ANSWERS.items() if model in ABOUT.get(stage, MODELS)}
    for model in MODELS
}


rule answers:
    input:
        lambda wildcards: list(dict.fromkeys(chain(*ANSWERED[wildcards.model].values()))),
    output:
        "<results>/{model}/answers.json",
    log:
        "<results>/logs/answers/{model}.log",
    benchmark:
        "<results>/benchmarks/answers/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        # The report prints what the stages say of themselves.
        code=lambda wildcards: source_digest(
            "answers",
            *[part_of(stage, "answer") for stage in ANSWERED[wildcards.model]],
            text="".join(map(method_of, ANSWERED[wildcards.model])),
        ),
        stages=lambda wildcards: list(ANSWERED[wildcards.model]),
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance answers --stages {params.stages:q} --tables {input:q}"
        " {params.k:q} --output {output:q} 2> {log:q}"
