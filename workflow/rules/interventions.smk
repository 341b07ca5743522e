"""Keep-only and knockout of the shared circuit, per (model, format, operator)."""

INTERVENTIONS = {
    "interventions": [
        every_cell("results/{model}/{format}/{operator}/interventions.parquet"),
        -3,
        -2,
    ]
}
FIGURES["interventions keep_only"] = FIGURES["interventions knockout"] = MODELS, INTERVENTIONS
ANSWERS["interventions"] = MODELS, INTERVENTIONS
TABLES += expand(
    "results/{model}/{format}/{operator}/{table}.parquet",
    table=["interventions", "interventions_prompts"],
    **CELLS,
)


rule interventions:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        dataset="results/{model}/{format}/{operator}/dataset.parquet",
        circuit="results/{model}/shared/{operator}/circuit.parquet",
        mean_cache="results/{model}/{format}/mean_cache.safetensors",
        template_mean_cache="results/{model}/{format}/{operator}/mean_cache.safetensors",
        ranking="results/{model}/{format}/{operator}/ranking.parquet",
    output:
        summary="results/{model}/{format}/{operator}/interventions.parquet",
        prompts="results/{model}/{format}/{operator}/interventions_prompts.parquet",
    log:
        "results/logs/interventions/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/interventions/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("interventions"),
        model=model_options,
        late_from=late_options,
        k=KS,
        random_seeds=config["random_seeds"],
        matched_seeds=config["matched_seeds"],
        center=CENTER,
        bootstrap=config["bootstrap"],
        seed=config["seed"],
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance interventions {params.model:q} {params.late_from:q}"
        " --dataset {input.dataset:q} --circuit {input.circuit:q} --mean-cache {input.mean_cache:q}"
        " --template-mean-cache {input.template_mean_cache:q} --ranking {input.ranking:q} --k {params.k}"
        " --random-seeds {params.random_seeds} --matched-seeds {params.matched_seeds} {params.center}"
        " --bootstrap {params.bootstrap} --seed {params.seed} --output {output.summary:q} --prompts-output {output.prompts:q} 2> {log:q}"


rule interventions_all:
    input:
        expand("results/{model}/{format}/{operator}/interventions.parquet", **CELLS),
    localrule: True
