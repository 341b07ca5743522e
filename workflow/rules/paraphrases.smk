"""Circuits of paraphrases compared with those of the templates, for the operators in `variant_operators`."""

VARIANTS = config_check.measured_variants(config)
VARIANT_FORMATS = [form for form in FORMATS if form in {cell[0] for cell in VARIANTS}]
VARIANT_OPERATORS = [operator for operator in OPERATORS if operator in {cell[1] for cell in VARIANTS}]
in_variant_formats = partial(expand, format=VARIANT_FORMATS, allow_missing=True)
if VARIANTS:
    PARAPHRASES = expand(
        "results/{model}/shared/{operator}/paraphrases.parquet", operator=VARIANT_OPERATORS, allow_missing=True
    )
    FIGURES["paraphrases paraphrases"] = ANSWERS["paraphrases"] = MODELS, {"paraphrases": [PARAPHRASES, -2]}
    TABLES += expand(PARAPHRASES, model=MODELS)


rule paraphrase_effects:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        table=lambda wildcards: as_inputs(TASK_TABLES.get(wildcards.operator, [])),
        datasets=in_variant_formats("results/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=in_variant_formats("results/{model}/{format}/{operator}/corrupt.parquet"),
    output:
        tables=in_variant_formats("results/{model}/{format}/{operator}/paraphrase_effects.safetensors"),
    log:
        "results/logs/paraphrase_effects/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/paraphrase_effects/{model}/{operator}.tsv"
    wildcard_constraints:
        operator=one_of(VARIANT_OPERATORS),
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("paraphrase-effects"),
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        # No word for a format that has variants of other operators alone.
        variants=lambda wildcards: [
            [
                f"--variant={operator}={text}"
                for operator, texts in VARIANTS.get((form, wildcards.operator), {}).items()
                for text in texts
            ]
            for form in VARIANT_FORMATS
        ],
        asked=lambda wildcards: ASKED[wildcards.operator],
        changes=lambda wildcards: changes_of(TASK_TABLES.get(wildcards.operator, [])),
        candidates=setting("candidates"),
        method=setting("ranking_method"),
    resources:
        **model_job(minutes=40),
    shell:
        in_turn(
            "paraphrase-effects {params.model:q} --model-files {input.model:q} {params.running:q}"
            " {params.late_from:q} {params.probes:q} --operator {wildcards.operator:q}"
            " {params.variants[#]:q} {params.asked:q} --dataset {input.datasets[#]:q}"
            " --corrupt-table {input.corrupt[#]:q} {params.candidates:q}"
            " {params.method:q} --output {output.tables[#]:q}",
            turns=len(VARIANT_FORMATS),
        )


rule paraphrases:
    input:
        effects=EFFECTS,
        variants=lambda wildcards: expand(
            "results/{model}/{format}/{operator}/paraphrase_effects.safetensors",
            format=[name for name, operator in VARIANTS if operator == wildcards.operator],
            **wildcards,
        ),
    output:
        "results/{model}/shared/{operator}/paraphrases.parquet",
    log:
        "results/logs/paraphrases/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/paraphrases/{model}/{operator}.tsv"
    wildcard_constraints:
        operator=one_of(VARIANT_OPERATORS),
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("paraphrases"),
        effects=lambda wildcards, input: keyed(input.effects, -3),
        variants=lambda wildcards, input: keyed(input.variants, -3),
        k=setting("k"),
        bootstrap=setting("bootstrap"),
        membership=setting("membership"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance paraphrases --effects {params.effects:q}"
        " --paraphrase-effects {params.variants:q} {params.k:q} {params.membership:q} {params.bootstrap:q}"
        " {params.seed:q} --output {output:q} 2> {log:q}"
