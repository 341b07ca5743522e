"""Paraphrases: their circuits beside the templates', for the measured operators."""


rule variant_effects:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        dataset="results/{model}/{format}/{operator}/dataset.parquet",
        corrupt="results/{model}/{format}/{operator}/corrupt.parquet",
    output:
        "results/{model}/{format}/{operator}/variant_effects.safetensors",
    log:
        "results/logs/variant_effects/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/variant_effects/{model}/{format}/{operator}.tsv"
    wildcard_constraints:
        format=one_of([name for name, _ in VARIANTS]),
        operator=one_of(VARIANT_OPERATORS),
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("paraphrase-effects"),
        model=model_options,
        late_from=late_options,
        variants=variant_options,
        operand_min=config["operands"]["operand_min"],
        operand_max=config["operands"]["operand_max"],
        answer_min=config["operands"]["answer_min"],
        answer_max=config["operands"]["answer_max"],
        candidates=config["candidates"],
    threads: 1
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance paraphrase-effects {params.model:q} {params.late_from:q}"
        " --operator {wildcards.operator:q} {params.variants:q}"
        " --operand-min {params.operand_min} --operand-max {params.operand_max}"
        " --answer-min {params.answer_min} --answer-max {params.answer_max}"
        " --dataset {input.dataset:q} --corrupt-table {input.corrupt:q} --candidates {params.candidates}"
        " --output {output:q} 2> {log:q}"


rule variant_overlap:
    input:
        effects=cells_of("results/{model}/{format}/{operator}/indirect_effects.safetensors", format=FORMATS),
        variants=lambda wildcards: expand(
            "results/{model}/{format}/{operator}/variant_effects.safetensors",
            format=formats_with_variants(wildcards),
            **wildcards,
        ),
    output:
        "results/{model}/shared/{operator}/variants.parquet",
    log:
        "results/logs/variant_overlap/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/variant_overlap/{model}/{operator}.tsv"
    wildcard_constraints:
        operator=one_of(VARIANT_OPERATORS),
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("paraphrases"),
        effects=lambda wildcards, input: named(FORMATS, input.effects),
        variants=lambda wildcards, input: named(formats_with_variants(wildcards), input.variants),
        k=KS,
        bootstrap=config["bootstrap"],
        seed=config["seed"],
    threads: 1
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance paraphrases --effects {params.effects:q}"
        " --variant-effects {params.variants:q} --k {params.k} --bootstrap {params.bootstrap}"
        " --seed {params.seed} --output {output:q} 2> {log:q}"


rule variants_figure:
    input:
        cells_of("results/{model}/shared/{operator}/variants.parquet", operator=VARIANT_OPERATORS),
    output:
        figure("{model}/variants"),
    log:
        "results/logs/figures/{model}/variants.log",
    benchmark:
        "results/benchmarks/figures/{model}/variants.tsv"
    conda:
        "../../envs/plot.yaml"
    params:
        code=source_digest("figure-variants"),
        tables=lambda wildcards, input: keyed(input, -2),
    threads: 1
    resources:
        **table_job(mem_mb=1000),
    shell:
        "python -m form_invariance figure-variants --tables {params.tables:q} --title {wildcards.model:q}"
        " --output {output:q} 2> {log:q}"
