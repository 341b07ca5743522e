"""Every operator's neurons on other tasks and on plain text, per (model, format)."""

SPECIFICITY_PROMPTS = every_format("<results>/{model}/{format}/specificity_prompts.parquet")
FIGURES["tasks"] = Figure("specificity", [CONTRASTS])
ANSWERS["specificity"] = [CONTRASTS]
MEASUREMENTS += SPECIFICITY_PROMPTS
TARGETS += expand(SPECIFICITY_PROMPTS, model=MODELS)
TEXT = [config["specificity_text"]] if config.get("specificity_text") else []


rule specificity:
    input:
        model_files="<results>/{model}/model_files.parquet",
        effects=every_cell("<results>/{model}/{format}/{operator}/indirect_effects.safetensors"),
        template_mean_caches=every_operator("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
    output:
        "<results>/{model}/{format}/specificity_prompts.parquet",
    log:
        "<results>/logs/specificity/{model}/{format}.log",
    benchmark:
        "<results>/benchmarks/specificity/{model}/{format}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("specificity"),
        model=model_options,
        # A function, because Snakemake would take the fields of a template for wildcards.
        tasks=lambda wildcards: OTHER_TASKS,
        text=lambda wildcards: [
            word for path in TEXT for word in joined_options({"text": path, "text_sha256": FILES[path]})
        ],
        operands=joined_options(config["operands"]),
        k=option("k", task_sizes(config)),
        settings=settings("late_from", "membership", "matched_seeds", "center_logits", "seed"),
        prompts=settings(prompts="eval_prompts"),
    resources:
        **model_job("specificity"),
    shell:
        "python -m form_invariance specificity {params.model:q} --model-files {input.model_files:q}"
        " --effects {input.effects:q} --template-mean-caches {input.template_mean_caches:q}"
        " --tasks {params.tasks:q} {params.text:q} {params.operands:q} {params.k:q} {params.settings:q}"
        " {params.prompts:q} --output {output:q} 2> {log:q}"
