"""Mean activations for the ablations, per (model, format) and per template, from pairs that are in no dataset."""


rule mean_cache:
    input:
        model="results/{model}/model_files.parquet",
        census=every_operator("results/{model}/{format}/{operator}/census.parquet"),
        datasets=every_cell("results/{model}/{format}/{operator}/dataset.parquet"),
    output:
        format="results/{model}/{format}/mean_cache.safetensors",
        templates=expand("results/{{model}}/{{format}}/{operator}/mean_cache.safetensors", operator=OPERATORS),
    log:
        "results/logs/mean_cache/{model}/{format}.log",
    benchmark:
        "results/benchmarks/mean_cache/{model}/{format}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("mean-cache"),
        model=model_options,
        census=lambda wildcards, input: keyed(input.census, -2),
        templates=lambda wildcards, output: keyed(output.templates, -2),
        prompts=config["mean_cache_prompts"],
        seed=config["seed"],
    resources:
        **model_job(minutes=10),
    shell:
        "python -m form_invariance mean-cache {params.model:q} --census {params.census:q}"
        " --exclude {input.datasets:q} --prompts {params.prompts} --seed {params.seed}"
        " --template-outputs {params.templates:q} --output {output.format:q} 2> {log:q}"
