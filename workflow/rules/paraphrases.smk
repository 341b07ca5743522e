"""Circuits of paraphrases compared with those of the templates, for the operators in `variant_operators`."""

VARIANTS = config_check.measured_variants(config)
VARIANT_FORMATS = [form for form in FORMATS if form in {cell[0] for cell in VARIANTS}]
VARIANT_OPERATORS = [operator for operator in OPERATORS if operator in {cell[1] for cell in VARIANTS}]
in_variant_formats = partial(expand, format=VARIANT_FORMATS, allow_missing=True)
if VARIANTS:
    PARAPHRASES = expand(
        "<results>/{model}/shared/{operator}/paraphrases.parquet", operator=VARIANT_OPERATORS, allow_missing=True
    )
    FIGURES["paraphrases paraphrases"] = ANSWERS["paraphrases"] = MODELS, {"paraphrases": [PARAPHRASES, -2]}
    TABLE_JOBS["paraphrases"] = {
        "inputs": {
            "effects": [EFFECTS, -3],
            "paraphrase_effects": [
                lambda wildcards: expand(
                    "<results>/{model}/{format}/{operator}/paraphrase_effects.safetensors",
                    format=[name for name, operator in VARIANTS if operator == wildcards.operator],
                    **wildcards,
                ),
                -3,
            ],
        },
        "outputs": {"output": "<results>/{model}/shared/{operator}/paraphrases.parquet"},
        "only": {"operator": VARIANT_OPERATORS},
        "settings": settings("k", "bootstrap", "membership", "seed"),
        "resources": {"mem_mb": 4000},
    }


rule paraphrase_effects:
    input:
        lambda wildcards: as_inputs(TASK_TABLES.get(wildcards.operator, [])),
        model_files="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        dataset=in_variant_formats("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt_table=in_variant_formats("<results>/{model}/{format}/{operator}/corrupt.parquet"),
    output:
        output=in_variant_formats("<results>/{model}/{format}/{operator}/paraphrase_effects.safetensors"),
    log:
        "<results>/logs/paraphrase_effects/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/paraphrase_effects/{model}/{operator}.tsv"
    wildcard_constraints:
        operator=one_of(VARIANT_OPERATORS),
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("paraphrase-effects"),
        model=model_options,
        files=run_files(turns=len(VARIANT_FORMATS)),
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
        settings=settings("late_from", "candidates", "ranking_method"),
    resources:
        **model_job(minutes=40),
    shell:
        in_turn(
            "paraphrase-effects {params.model:q} {params.files[#]:q} --operator {wildcards.operator:q}"
            " {params.variants[#]:q} {params.asked:q} {params.settings:q}",
            turns=len(VARIANT_FORMATS),
        )
