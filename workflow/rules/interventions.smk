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
    },
    "outputs": {"output": CONTRASTS},
    "settings": settings("bootstrap", "seed"),
    "resources": {"mem_mb": 2000},
}


rule interventions:
    input:
        model="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        circuits=every_operator("<results>/{model}/shared/{operator}/circuit.parquet") * len(FORMATS),
        mean_caches=[
            path for path in every_format("<results>/{model}/{format}/mean_cache.safetensors") for _ in OPERATORS
        ],
        template_mean_caches=every_cell("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
    output:
        summaries=INTERVENTIONS["interventions"][0],
        prompts=every_cell("<results>/{model}/{format}/{operator}/interventions_prompts.parquet"),
    log:
        "<results>/logs/interventions/{model}.log",
    benchmark:
        "<results>/benchmarks/interventions/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("interventions"),
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        k=setting("k"),
        random_seeds=setting("random_seeds"),
        matched_seeds=setting("matched_seeds"),
        center=CENTER,
        bootstrap=setting("bootstrap"),
        seed=setting("seed"),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "interventions {params.model:q} --model-files {input.model:q} {params.running:q}"
            " {params.late_from:q} {params.probes:q}"
            " --dataset {input.datasets[#]:q} --circuit {input.circuits[#]:q} --mean-cache {input.mean_caches[#]:q}"
            " --template-mean-cache {input.template_mean_caches[#]:q} --ranking {input.rankings[#]:q}"
            " {params.k:q} {params.random_seeds:q} {params.matched_seeds:q}"
            " {params.center} {params.bootstrap:q} {params.seed:q}"
            " --output {output.summaries[#]:q} --prompts-output {output.prompts[#]:q}",
            turns=len(FORMATS) * len(OPERATORS),
        )


rule interventions_all:
    input:
        expand("<results>/{model}/{format}/{operator}/interventions.parquet", **CELLS),
    localrule: True
