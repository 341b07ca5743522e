"""The questions of the report about a model, answered from its tables."""


rule answers:
    input:
        list(dict.fromkeys(table for tables in ANSWERS.values() for table in tables)),
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
        code=source_digest(
            "answers", *[part_of(stage, "answer") for stage in ANSWERS], text="".join(map(method_of, ANSWERS))
        ),
        stages=list(ANSWERS),
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance answers --stages {params.stages:q} --tables {input:q}"
        " {params.k:q} --output {output:q} 2> {log:q}"
