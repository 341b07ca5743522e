"""The experiment in five steps, by one problem of the first operator, in the first model."""

PAGES.append("<results>/explained.html")
explained = partial(
    expand, "<results>/{model}/{format}/{operator}/{table}", model=MODELS[0], operator=OPERATORS[0]
)
EXPLAINED_MAPS = explained(format=FORMATS, table="activation_maps.safetensors") if OPERATORS[0] in GRIDS else []
EXPLAINED_CELLS = ["census", "ranking", "interventions", *(["heuristics"] if EXPLAINED_MAPS else [])]
EXPLAINED = {
    **{name: [explained(format=FORMATS, table=f"{name}.parquet"), -3] for name in EXPLAINED_CELLS},
    **{name: [explained(format=FORMATS[0], table=f"{name}.parquet")] for name in ("dataset", "corrupt")},
    **{name: [explained(format="shared", table=f"{name}.parquet")] for name in ("circuit", "overlap")},
    **{
        name: [expand(paths, model=MODELS[0])]
        for name, paths in (("intervention_contrasts", CONTRASTS), ("verdicts", VERDICTS))
    },
}


rule explainer:
    input:
        **{name: paths for name, (paths, *_) in EXPLAINED.items()},
        maps=EXPLAINED_MAPS,
        effects=explained(format=FORMATS[0], table="indirect_effects.safetensors"),
        answers=expand("<results>/{model}/answers.json", model=MODELS[0]),
    output:
        "<results>/explained.html",
    log:
        "<results>/logs/explainer.log",
    benchmark:
        "<results>/benchmarks/explainer.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("explainer"),
        model=option("model", MODELS[0]),
        operator=option("operator", OPERATORS[0]),
        asked=lambda wildcards: asked_of(config["operators"][OPERATORS[0]]),
        tables=lambda wildcards, input: table_options(EXPLAINED, input),
        maps=lambda wildcards, input: ["--maps", *keyed(input.maps, -3)] if input.maps else [],
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance explainer {params.model:q} {params.operator:q}"
        " --asked={params.asked:q} --tables {params.tables:q} {params.maps:q} {params.k:q}"
        " --effects {input.effects:q} --answers {input.answers:q} --output {output:q} 2> {log:q}"
