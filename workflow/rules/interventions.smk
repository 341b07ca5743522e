"""Keep-only and knockout of the shared circuit, per (model, format, operator)."""

INTERVENTIONS = every_cell("<results>/{model}/{format}/{operator}/interventions.parquet")
INTERVENTIONS_PROMPTS = every_cell("<results>/{model}/{format}/{operator}/interventions_prompts.parquet")
FIGURES["keep_only"] = FIGURES["knockout"] = Figure("interventions", INTERVENTIONS)
ANSWERS["interventions"] = [*INTERVENTIONS, CONTRASTS]
MEASUREMENTS += INTERVENTIONS_PROMPTS
TARGETS += expand([*INTERVENTIONS, *INTERVENTIONS_PROMPTS], model=MODELS)


rule interventions:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        circuit="<results>/{model}/shared/{operator}/circuit.parquet",
        circuit_halves="<results>/{model}/shared/{operator}/circuit_halves.parquet",
        format_mean_cache="<results>/{model}/{format}/mean_cache.safetensors",
        template_mean_cache="<results>/{model}/{format}/{operator}/mean_cache.safetensors",
        ranking_table="<results>/{model}/{format}/{operator}/ranking.parquet",
    output:
        table="<results>/{model}/{format}/{operator}/interventions.parquet",
        prompts_output="<results>/{model}/{format}/{operator}/interventions_prompts.parquet",
    log:
        "<results>/logs/interventions/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/interventions/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("interventions"),
        model=model_options,
        settings=settings("late_from", "k", "random_seeds", "matched_seeds", "center_logits", "bootstrap", "seed"),
    resources:
        **model_job("interventions"),
    shell:
        "python -m form_invariance interventions {params.model:q} --model-files {input.model_files:q}"
        " --dataset {input.dataset:q} --circuit {input.circuit:q} --circuit-halves {input.circuit_halves:q}"
        " --format-mean-cache {input.format_mean_cache:q} --template-mean-cache {input.template_mean_cache:q}"
        " --ranking-table {input.ranking_table:q} {params.settings:q} --output {output.table:q}"
        " --prompts-output {output.prompts_output:q} 2> {log:q}"
