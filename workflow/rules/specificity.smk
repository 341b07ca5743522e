"""Every operator's circuit on every operator, on copying, comparing and plain text, per model."""

SPECIFICITY = {
    table: [f"<results>/{{model}}/shared/{table}.parquet"] for table in ("specificity", "specificity_contrasts")
}
FIGURES["specificity"] = "specificity", MODELS, {"specificity": SPECIFICITY["specificity"]}
FIGURES["exchange"] = "specificity", MODELS, {"specificity": SPECIFICITY["specificity"]}
ANSWERS["specificity"] = MODELS, SPECIFICITY
SPECIFICITY_PROMPTS = "<results>/{model}/shared/specificity_prompts.parquet"
TABLES += expand("<results>/{model}/shared/{table}.parquet", model=MODELS, table=SPECIFICITY)
TABLES += expand(SPECIFICITY_PROMPTS, model=MODELS)
TEXT = [config["specificity_text"]] if config.get("specificity_text") else []
TASKS = config.get("specificity_tasks", {})


rule specificity:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
        circuits=every_operator("<results>/{model}/shared/{operator}/circuit.parquet"),
        means=every_cell("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
    output:
        table="<results>/{model}/shared/specificity.parquet",
        contrasts="<results>/{model}/shared/specificity_contrasts.parquet",
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
        dataset=lambda wildcards, input: keyed(input.dataset, *CELL),
        rankings=lambda wildcards, input: keyed(input.rankings, *CELL),
        circuits=lambda wildcards, input: keyed(input.circuits, -2),
        means=lambda wildcards, input: keyed(input.means, *CELL),
        tasks=[f"{name}={task['expression']}" for name, task in TASKS.items()],
        # A function, because Snakemake would take the fields of a template for wildcards.
        templates=lambda wildcards: [
            f"{form}/{name}={template}"
            for name, task in TASKS.items()
            for form, template in task["templates"].items()
            if form in FORMATS
        ],
        text=lambda wildcards: [
            f"--{word}" for path in TEXT for word in (f"text={path}", f"text-sha256={FILES[path]}")
        ],
        operands=[f"--{key.replace('_', '-')}={value}" for key, value in config["operands"].items()],
        settings=settings(
            "late_from", "k", "matched_seeds", "center_logits", "bootstrap", "seed", prompts="eval_prompts"
        ),
    resources:
        **model_job("specificity"),
    shell:
        "python -m form_invariance specificity {params.model:q} --model-files {input.model_files:q}"
        " --dataset {params.dataset:q} --rankings {params.rankings:q} --circuit {params.circuits:q}"
        " --mean-cache {params.means:q} --task {params.tasks:q} --task-template {params.templates:q}"
        " {params.text:q} {params.operands:q} {params.settings:q} --output {output.table:q}"
        " --contrasts-output {output.contrasts:q} --prompts-output {output.by_prompt:q} 2> {log:q}"
