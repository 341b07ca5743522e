"""Every operator's circuit on every operator, on copying, comparing and plain text, per model."""

SPECIFICITY = {
    table: [[f"<results>/{{model}}/shared/{table}.parquet"]] for table in ("specificity", "specificity_contrasts")
}
FIGURES["specificity specificity"] = MODELS, {"specificity": SPECIFICITY["specificity"]}
FIGURES["specificity exchange"] = MODELS, {"specificity": SPECIFICITY["specificity"]}
ANSWERS["specificity"] = MODELS, SPECIFICITY
TABLES += expand("<results>/{model}/shared/{table}.parquet", model=MODELS, table=SPECIFICITY)
TEXT = [config["specificity_text"]] if config.get("specificity_text") else []
TASKS = config.get("specificity_tasks", {})
OPERANDS = [f"--{key.replace('_', '-')}={value}" for key, value in config["operands"].items()]


rule specificity:
    input:
        model="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
        circuit=every_operator("<results>/{model}/shared/{operator}/circuit.parquet"),
        mean_cache=every_cell("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
        text=as_inputs(TEXT),
    output:
        table="<results>/{model}/shared/specificity.parquet",
        contrasts="<results>/{model}/shared/specificity_contrasts.parquet",
    log:
        "<results>/logs/specificity/{model}.log",
    benchmark:
        "<results>/benchmarks/specificity/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("specificity"),
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        dataset=lambda wildcards, input: keyed(input.dataset, -3, -2),
        rankings=lambda wildcards, input: keyed(input.rankings, -3, -2),
        circuit=lambda wildcards, input: keyed(input.circuit, -2),
        mean_cache=lambda wildcards, input: keyed(input.mean_cache, -3, -2),
        tasks=[f"{name}={task['expression']}" for name, task in TASKS.items()],
        # A function, because Snakemake would take the fields of a template for wildcards.
        templates=lambda wildcards: [
            f"{form}/{name}={template}"
            for name, task in TASKS.items()
            for form, template in task["templates"].items()
            if form in FORMATS
        ],
        text=lambda wildcards: [f"--text={path}" for path in TEXT],
        changes=lambda wildcards: changes_of(TEXT),
        operands=OPERANDS,
        prompts=setting("eval_prompts", "prompts"),
        k=setting("k"),
        matched_seeds=setting("matched_seeds"),
        center=CENTER,
        bootstrap=setting("bootstrap"),
        seed=setting("seed"),
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance specificity {params.model:q} --model-files {input.model:q} {params.running:q}"
        " {params.late_from:q} {params.probes:q}"
        " --dataset {params.dataset:q} --rankings {params.rankings:q} --circuit {params.circuit:q}"
        " --mean-cache {params.mean_cache:q} --task {params.tasks:q} --task-template {params.templates:q}"
        " {params.text:q} {params.operands:q} {params.prompts:q} {params.k:q}"
        " {params.matched_seeds:q} {params.center} {params.bootstrap:q} {params.seed:q}"
        " --output {output.table:q} --contrasts-output {output.contrasts:q} 2> {log:q}"
