"""The circuits compared with their strongest controls, over the cells of a model."""

CONTRASTS = "<results>/{model}/shared/intervention_contrasts.parquet"
ANSWERS["interventions"] = MODELS, {"intervention_contrasts": [CONTRASTS]}
TABLES += expand(CONTRASTS, model=MODELS)


rule intervention_contrasts:
    input:
        interventions=CELL_INTERVENTIONS["interventions"][0],
        by_prompt=CELL_INTERVENTIONS["interventions_prompts"][0],
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
    output:
        CONTRASTS,
    log:
        "<results>/logs/intervention_contrasts/{model}.log",
    benchmark:
        "<results>/benchmarks/intervention_contrasts/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("intervention-contrasts"),
        interventions=lambda wildcards, input: keyed(input.interventions, *CELL),
        by_prompt=lambda wildcards, input: keyed(input.by_prompt, *CELL),
        dataset=lambda wildcards, input: keyed(input.dataset, *CELL),
        settings=settings("bootstrap", "seed"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance intervention-contrasts --interventions {params.interventions:q}"
        " --by-prompt {params.by_prompt:q} --dataset {params.dataset:q} {params.settings:q} --output {output:q}"
        " 2> {log:q}"
