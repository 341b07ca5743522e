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
        model="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        table=lambda wildcards: as_inputs(TASK_TABLES.get(wildcards.operator, [])),
        datasets=in_variant_formats("<results>/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=in_variant_formats("<results>/{model}/{format}/{operator}/corrupt.parquet"),
    output:
        tables=in_variant_formats("<results>/{model}/{format}/{operator}/paraphrase_effects.safetensors"),
    log:
        "<results>/logs/paraphrase_effects/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/paraphrase_effects/{model}/{operator}.tsv"
    wildcard_constraints:
        operator=one_of(VARIANT_OPERATORS),
    conda:
        "../../envs/gpu.yaml"
    params:
        **RUN,
        # No word for a format that has variants of other operators alone.
        code=source_digest("paraphrase-effects"),
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
            f"paraphrase-effects {RUN_OPTIONS} --operator {{wildcards.operator:q}}"
            " {params.variants[#]:q} {params.asked:q} --dataset {input.datasets[#]:q}"
            " --corrupt-table {input.corrupt[#]:q} {params.candidates:q}"
            " {params.method:q} --output {output.tables[#]:q}",
            turns=len(VARIANT_FORMATS),
        )
