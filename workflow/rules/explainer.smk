"""The experiment in six steps, by one problem of the first operator, in the first model."""

PAGES.append("<results>/explained.html")
explained = partial(expand, "<results>/{model}/{part}/{operator}/{table}", model=MODELS[0], operator=OPERATORS[0])
EXPLAINED_MAPS = explained(part=FORMATS, table="activation_maps.safetensors") if OPERATORS[0] in GRIDS else []
EXPLAINED_CELLS = ["census", "ranking", "interventions", *(["heuristics"] if EXPLAINED_MAPS else [])]


rule explainer:
    input:
        tables=[
            *explained(part=FORMATS, table=[f"{name}.parquet" for name in EXPLAINED_CELLS]),
            *explained(part=FORMATS[0], table=["dataset.parquet", "corrupt.parquet"]),
            *explained(part="shared", table=["circuit.parquet", "overlap.parquet"]),
            *expand([CONTRASTS, VERDICTS, *sum(EXPLAINED.values(), [])], model=MODELS[0]),
        ],
        maps=EXPLAINED_MAPS,
        effects=explained(part=FORMATS[0], table="indirect_effects.safetensors"),
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
        code=source_digest("explainer", *[part_of(stage, "explained") for stage in EXPLAINED]),
        asked=lambda wildcards: asked_of(config["operators"][OPERATORS[0]]),
        stages=list(EXPLAINED),
        k=settings(k="k_shown"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance explainer --asked={params.asked:q} --stages {params.stages:q}"
        " --tables {input.tables:q} --maps {input.maps:q} {params.k:q}"
        " --effects {input.effects:q} --answers {input.answers:q} --output {output:q} 2> {log:q}"
