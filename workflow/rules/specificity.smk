"""Every operator's circuit on every operator, on other tasks and on plain text, per model."""

SPECIFICITY = "<results>/{model}/shared/specificity.parquet"
SPECIFICITY_PROMPTS = "<results>/{model}/shared/specificity_prompts.parquet"
FIGURES["exchange"] = Figure("specificity", [SPECIFICITY])
FIGURES["tasks"] = Figure("specificity", [CONTRASTS])
FIGURES["losses"] = Figure("specificity", [SPECIFICITY, CONTRASTS])
ANSWERS["specificity"] = [SPECIFICITY, CONTRASTS]
TARGETS += expand([SPECIFICITY, SPECIFICITY_PROMPTS], model=MODELS)
TEXT = [config["specificity_text"]] if config.get("specificity_text") else []


rule specificity:
    input:
        model_files="<results>/{model}/model_files.parquet",
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        effects=every_cell("<results>/{model}/{format}/{operator}/indirect_effects.safetensors"),
        circuits=every_operator("<results>/{model}/shared/{operator}/circuit.parquet"),
        halves=every_operator("<results>/{model}/shared/{operator}/circuit_halves.parquet"),
        means=every_cell("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
    output:
        table=SPECIFICITY,
        by_prompt=SPECIFICITY_PROMPTS,
    log:
        "<results>/logs/specificity/{model}.log",
    benchmark:
        "<results>/benchmarks/specificity/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("specificity"),
        model=model_options,
        # A function, because Snakemake would take the fields of a template for wildcards.
        tasks=lambda wildcards: OTHER_TASKS,
        text=lambda wildcards: [
            f"--{word}" for path in TEXT for word in (f"text={path}", f"text-sha256={FILES[path]}")
        ],
        operands=[f"--{key.replace('_', '-')}={value}" for key, value in config["operands"].items()],
        settings=settings("late_from", "k", "membership", "matched_seeds", "center_logits", "bootstrap", "seed"),
        prompts=settings(prompts="eval_prompts"),
    resources:
        **model_job("specificity"),
    shell:
        "python -m form_invariance specificity {params.model:q} --model-files {input.model_files:q}"
        " --datasets {input.datasets:q} --effects {input.effects:q} --circuits {input.circuits:q}"
        " --circuit-halves {input.halves:q}"
        " --mean-caches {input.means:q} --tasks {params.tasks:q}"
        " {params.text:q} {params.operands:q} {params.settings:q} {params.prompts:q} --output {output.table:q}"
        " --prompts-output {output.by_prompt:q} 2> {log:q}"
