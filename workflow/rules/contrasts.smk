"""All contrasts of what sets of neurons do, per model, from the tables by prompt."""

TARGETS += expand(CONTRASTS, model=MODELS)


rule contrasts:
    input:
        MEASUREMENTS,
    output:
        CONTRASTS,
    log:
        "<results>/logs/contrasts/{model}.log",
    benchmark:
        "<results>/benchmarks/contrasts/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("contrasts"),
        # A function, because Snakemake would take the fields of a template for wildcards.
        copying=lambda wildcards: COPYING_TASKS,
        sizes=[*option("best_k", dose_sizes(config)), *option("specificity_k", task_sizes(config))],
        settings=settings("k", "bootstrap", "seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance contrasts --tables {input:q} --copying {params.copying:q} {params.sizes:q}"
        " {params.settings:q}"
        " --output {output:q} 2> {log:q}"
