"""Attention heads: exact patching in all formats, and how far the formats' best overlap, per (model, operator)."""


# One job for all formats: reading the model takes longer than patching its heads.
rule heads:
    input:
        model="results/{model}/model_files.parquet",
        dataset=cells_of("results/{model}/{format}/{operator}/dataset.parquet", format=FORMATS),
        corrupt=cells_of("results/{model}/{format}/{operator}/corrupt.parquet", format=FORMATS),
    output:
        tables=expand("results/{{model}}/{format}/{{operator}}/heads.parquet", format=FORMATS),
        effects="results/{model}/shared/{operator}/head_effects.safetensors",
    log:
        "results/logs/heads/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/heads/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heads"),
        model=model_options,
        dataset=lambda wildcards, input: named(FORMATS, input.dataset),
        corrupt=lambda wildcards, input: named(FORMATS, input.corrupt),
    threads: 1
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance heads {params.model:q} --datasets {params.dataset:q}"
        " --corrupt-tables {params.corrupt:q} --effects-output {output.effects:q}"
        " --output {output.tables:q} 2> {log:q}"


rule head_overlap:
    input:
        probes=onset_probes,
        effects="results/{model}/shared/{operator}/head_effects.safetensors",
    output:
        "results/{model}/shared/{operator}/head_overlap.parquet",
    log:
        "results/logs/head_overlap/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/head_overlap/{model}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("head-overlap"),
        late_from=late_options,
        heads=HEADS,
        bootstrap=config["bootstrap"],
        seed=config["seed"],
    threads: 1
    resources:
        **table_job(mem_mb=2000),
    shell:
        "python -m form_invariance head-overlap --effects {input.effects:q} {params.late_from:q}"
        " --heads {params.heads} --bootstrap {params.bootstrap} --seed {params.seed} --output {output:q} 2> {log:q}"
