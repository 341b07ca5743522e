"""What each neuron of the shared circuit does alone, and what it writes directly, in all cells of a model."""

TABLES += expand(
    "<results>/{model}/{format}/{operator}/{table}.parquet", table=["neuron_effects", "direct_effects"], **CELLS
)


rule neuron_effects:
    input:
        model_files="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        dataset=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        circuit=every_operator("<results>/{model}/shared/{operator}/classified_circuit.parquet") * len(FORMATS),
        mean_cache=[
            path for path in every_format("<results>/{model}/{format}/mean_cache.safetensors") for _ in OPERATORS
        ],
    output:
        output=every_cell("<results>/{model}/{format}/{operator}/neuron_effects.parquet"),
        problems=every_cell("<results>/{model}/{format}/{operator}/direct_effects.parquet"),
        arrays=every_cell("<results>/{model}/{format}/{operator}/direct_effects.safetensors"),
    log:
        "<results>/logs/neuron_effects/{model}.log",
    benchmark:
        "<results>/benchmarks/neuron_effects/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=[source_digest("neuron-effects"), source_digest("direct-effects")],
        model=model_options,
        files=run_files(turns=len(FORMATS) * len(OPERATORS)),
        settings=settings("late_from", "center_logits", k="k_shown"),
        operators=OPERATORS * len(FORMATS),
        asked=[ASKED[name] for name in OPERATORS] * len(FORMATS),
        # A function, because the templates' fields look like wildcards.
        templates=lambda wildcards: [
            one["templates"][name] for one in config["formats"].values() for name in OPERATORS
        ],
        direct=settings(
            "seed", k="k_shown", max_operand="heuristic_max_operand", problems="direct_effect_problems"
        ),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "neuron-effects {params.model:q} {params.files[#]:q} {params.settings:q}",
            "direct-effects {params.model:q} --model-files {input.model_files:q} {params.asked[#]:q}"
            " --operator {params.operators[#]:q} --template={params.templates[#]:q} --circuit {input.circuit[#]:q}"
            " {params.direct:q} --output {output.problems[#]:q} --arrays-output {output.arrays[#]:q}",
            turns=len(FORMATS) * len(OPERATORS),
        )
