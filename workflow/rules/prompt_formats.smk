"""The prompts of every format with their tokens, by the first model's tokenizer."""

TABLES += expand("<results>/figures/prompt_formats.{kind}", kind=FIGURE_KINDS)


rule prompt_formats:
    input:
        model=f"<results>/{MODELS[0]}/model_files.parquet",
    output:
        figure_files("prompt_formats"),
    log:
        "<results>/logs/figures/prompt_formats.log",
    benchmark:
        "<results>/benchmarks/figures/prompt_formats.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("prompt-formats"),
        model=lambda wildcards: source_options(config["models"][MODELS[0]]),
        tables=lambda wildcards: [f"{name}={table}" for name, table in TASK_TABLES.items()],
        changes=[FILES[table] for table in TASK_TABLES.values()],
        templates=lambda wildcards: [
            f"--template={name}/{operator}={config['formats'][name]['templates'][operator]}"
            for name in FORMATS
            for operator in OPERATORS
        ],
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance prompt-formats {params.model:q} --model-files {input.model:q}"
        " {params.templates:q} --table {params.tables:q} --output {output:q} 2> {log:q}"
