"""Keep-only and knockout of the shared circuits in all cells of a model."""

INTERVENTIONS = {
    "interventions": [
        every_cell("<results>/{model}/{format}/{operator}/interventions.parquet"),
        -3,
        -2,
    ]
}
FIGURES["interventions keep_only"] = FIGURES["interventions knockout"] = MODELS, INTERVENTIONS
CONTRASTS = "<results>/{model}/shared/intervention_contrasts.parquet"
ANSWERS["interventions"] = MODELS, {"intervention_contrasts": [CONTRASTS]}
TABLES += expand(
    "<results>/{model}/{format}/{operator}/{table}.parquet",
    table=["interventions", "interventions_prompts"],
    **CELLS,
)
# The circuits compared with their strongest controls, over the cells of a model.
TABLE_JOBS["intervention-contrasts"] = {
    "inputs": {
        "interventions": [INTERVENTIONS["interventions"][0], -3, -2],
        "by_prompt": [every_cell("<results>/{model}/{format}/{operator}/interventions_prompts.parquet"), -3, -2],
        "dataset": [every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"), -3, -2],
    },
    "outputs": {"output": CONTRASTS},
    "settings": settings("bootstrap", "seed"),
    "resources": {"mem_mb": 2000},
}


rule interventions:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        circuit=every_operator("<results>/{model}/shared/{operator}/circuit.parquet") * len(FORMATS),
        mean_cache=[
            path for path in every_format("<results>/{model}/{format}/mean_cache.safetensors") for _ in OPERATORS
        ],
        template_mean_cache=every_cell("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
        ranking=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
    output:
        output=INTERVENTIONS["interventions"][0],
        prompts_output=every_cell("<results>/{model}/{format}/{operator}/interventions_prompts.parquet"),
    log:
        "<results>/logs/interventions/{model}.log",
    benchmark:
        "<results>/benchmarks/interventions/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("interventions"),
        model=model_options,
        files=file_options(turns=len(FORMATS) * len(OPERATORS)),
        settings=settings("late_from", "k", "random_seeds", "matched_seeds", "center_logits", "bootstrap", "seed"),
    resources:
        **model_job("interventions"),
    shell:
        in_turn(
            "interventions {params.model:q} {params.files[#]:q} {params.settings:q}",
            turns=len(FORMATS) * len(OPERATORS),
        )


rule interventions_all:
    input:
        expand("<results>/{model}/{format}/{operator}/interventions.parquet", **CELLS),
    localrule: True
