"""The verdicts on every model, and all models side by side."""

VERDICTS = "<results>/{model}/shared/verdicts.parquet"
JUDGED = {
    "overlap": OVERLAP["overlap"],
    "differing": [DIFFERING],
    "intervention_contrasts": [CONTRASTS],
    **TRANSFER_CONTRASTS,
    "specificity_contrasts": SPECIFICITY["specificity_contrasts"],
}
FIGURES["summary summary"] = None, {"verdicts": [expand(VERDICTS, model=MODELS), -3]}
# The report opens with it.
ANSWERS = {"summary": (MODELS, {"verdicts": [VERDICTS]}), **ANSWERS}
TABLES += expand(VERDICTS, model=MODELS)


rule summary:
    input:
        **{name: paths for name, (paths, *_) in JUDGED.items()},
    output:
        VERDICTS,
    log:
        "<results>/logs/summary/{model}.log",
    benchmark:
        "<results>/benchmarks/summary/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("summary"),
        tables=table_options(JUDGED),
        k_shown=settings("k_shown"),
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance summary --tables {params.tables:q} {params.k_shown:q} --output {output:q} 2> {log:q}"


# Not in `all`: how often the verdicts of a model say yes or no where nothing is to be found.
rule nulls:
    input:
        interventions=INTERVENTIONS["interventions"][0],
        prompts=every_cell("<results>/{model}/{format}/{operator}/interventions_prompts.parquet"),
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        effects=every_cell("<results>/{model}/{format}/{operator}/indirect_effects.safetensors"),
        transfer=TRANSFERS,
        transfer_pairs=TRANSFER_PAIRS,
        lost=SPECIFICITY_PROMPTS,
    output:
        "<results>/{model}/shared/nulls.parquet",
    log:
        "<results>/logs/nulls/{model}.log",
    benchmark:
        "<results>/benchmarks/nulls/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("nulls"),
        interventions=lambda wildcards, input: keyed(input.interventions, -3, -2),
        prompts=lambda wildcards, input: keyed(input.prompts, -3, -2),
        dataset=lambda wildcards, input: keyed(input.dataset, -3, -2),
        effects=lambda wildcards, input: keyed(input.effects, -3, -2),
        tables=table_options({**TRANSFER, "transfer_pairs": [TRANSFER_PAIRS, -2]}),
        settings=settings("k", "membership", "bootstrap", "seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance nulls --interventions {params.interventions:q} --by-prompt {params.prompts:q}"
        " --dataset {params.dataset:q} --effects {params.effects:q} --tables {params.tables:q} --lost {input.lost:q}"
        " {params.settings:q} --output {output:q} 2> {log:q}"
