"""Every operator's circuit on every operator, on copying, comparing and plain text, per model."""

SPECIFICITY = {
    table: [[f"<results>/{{model}}/shared/{table}.parquet"]] for table in ("specificity", "specificity_contrasts")
}
FIGURES["specificity specificity"] = MODELS, {"specificity": SPECIFICITY["specificity"]}
FIGURES["specificity exchange"] = MODELS, {"specificity": SPECIFICITY["specificity"]}
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
        circuit=every_operator("<results>/{model}/shared/{operator}/circuit.parquet"),
        mean_cache=every_cell("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
    output:
        output="<results>/{model}/shared/specificity.parquet",
        contrasts_output="<results>/{model}/shared/specificity_contrasts.parquet",
        prompts_output=SPECIFICITY_PROMPTS,
    log:
        "<results>/logs/specificity/{model}.log",
    benchmark:
        "<results>/benchmarks/specificity/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("specificity"),
        model=model_options,
        files=file_options(dataset=CELL, rankings=CELL, circuit=-2, mean_cache=CELL),
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
        in_turn(
            "specificity {params.model:q} {params.files:q} --task {params.tasks:q}"
            " --task-template {params.templates:q} {params.text:q} {params.operands:q} {params.settings:q}"
        )
