"""The circuits compared with their strongest controls, over the cells of a model."""

CONTRASTS = "<results>/{model}/shared/intervention_contrasts.parquet"
ANSWERS["interventions"] = Answer(MODELS, [CONTRASTS])
TARGETS += expand(CONTRASTS, model=MODELS)


rule intervention_contrasts:
    input:
        interventions=INTERVENTIONS,
        by_prompt=INTERVENTIONS_PROMPTS,
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
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
        settings=settings("bootstrap", "seed"),
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance intervention-contrasts --interventions {input.interventions:q}"
        " --by-prompt {input.by_prompt:q} --datasets {input.datasets:q} {params.settings:q} --output {output:q}"
        " 2> {log:q}"
