"""The questions of the report about a model, answered from its tables."""


def answers_about(wildcards) -> dict[str, list[str]]:
    """The tables that answer the questions about a model, by stage."""
    return {stage: tables for stage, tables in ANSWERS.items() if wildcards.model in ABOUT.get(stage, MODELS)}


rule answers:
    input:
        lambda wildcards: list(dict.fromkeys(chain(*answers_about(wildcards).values()))),
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
            *[part_of(stage, "answer") for stage in answers_about(wildcards)],
            text="".join(map(method_of, answers_about(wildcards))),
        ),
        stages=lambda wildcards: list(answers_about(wildcards)),
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance answers --stages {params.stages:q} --tables {input:q}"
        " {params.k:q} --output {output:q} 2> {log:q}"
