"""Knockout and keep-only of every size, per (model, format, operator)."""

DOSE_PROMPTS = every_cell("<results>/{model}/{format}/{operator}/dose_prompts.parquet")
FIGURES["dose"] = Figure("dose", [CONTRASTS])
ANSWERS["dose"] = [CONTRASTS]
MEASUREMENTS += DOSE_PROMPTS
TARGETS += expand(DOSE_PROMPTS, model=MODELS)


rule dose:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        template_mean_cache="<results>/{model}/{format}/{operator}/mean_cache.safetensors",
        effects=every_cell("<results>/{model}/{format}/{operator}/indirect_effects.safetensors"),
        template_mean_caches=every_operator("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
    output:
        "<results>/{model}/{format}/{operator}/dose_prompts.parquet",
    log:
        "<results>/logs/dose/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/dose/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("dose"),
        model=model_options,
        k=option("k", dose_sizes(config)),
        settings=settings("late_from", "membership", "matched_seeds", "center_logits", "seed"),
    resources:
        **model_job("dose"),
    shell:
        "python -m form_invariance dose {params.model:q} --model-files {input.model_files:q}"
        " --dataset {input.dataset:q} --template-mean-cache {input.template_mean_cache:q}"
        " --effects {input.effects:q} --template-mean-caches {input.template_mean_caches:q}"
        " {params.k:q} {params.settings:q} --output {output:q} 2> {log:q}"
