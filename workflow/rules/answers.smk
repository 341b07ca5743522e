"""The questions of the report about a model, answered from its tables."""

from form_invariance.experiment.answers import method_of


rule answers:
    input:
        lambda wildcards: answered(wildcards.model),
    output:
        "<results>/{model}/answers.json",
    log:
        "<results>/logs/answers/{model}.log",
    benchmark:
        "<results>/benchmarks/answers/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("answers", *[part_of(stage, "answer") for stage in ANSWERS]),
        # What the report says of methods are docstrings, which do not count as code.
        methods=text_digest(map(method_of, ANSWERS)),
        stages=lambda wildcards: [stage for stage, one in ANSWERS.items() if wildcards.model in one.models],
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance answers --stages {params.stages:q} --tables {input:q}"
        " {params.k:q} --output {output:q} 2> {log:q}"
