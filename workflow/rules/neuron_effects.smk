"""What each neuron of the shared circuit does alone, and what it writes directly, in all cells of a model."""

TABLES += expand(
    "<results>/{model}/{format}/{operator}/{table}.parquet", table=["neuron_effects", "direct_effects"], **CELLS
)


rule neuron_effects:
    input:
        model="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        circuits=every_operator("<results>/{model}/shared/{operator}/classified_circuit.parquet") * len(FORMATS),
        mean_caches=[
            path for path in every_format("<results>/{model}/{format}/mean_cache.safetensors") for _ in OPERATORS
        ],
        task_tables=as_inputs(TASK_TABLES.values()),
    output:
        tables=every_cell("<results>/{model}/{format}/{operator}/neuron_effects.parquet"),
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
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        k=setting("heuristic_k", "k"),
        center=CENTER,
        operators=OPERATORS * len(FORMATS),
        asked=[ASKED[name] for name in OPERATORS] * len(FORMATS),
        # A function, because the templates' fields look like wildcards.
        templates=lambda wildcards: [
            one["templates"][name] for one in config["formats"].values() for name in OPERATORS
        ],
        max_operand=setting("heuristic_max_operand", "max-operand"),
        problems=setting("direct_effect_problems", "problems"),
        changes=lambda wildcards: changes_of(TASK_TABLES.values()),
        seed=setting("seed"),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "neuron-effects {params.model:q} --model-files {input.model:q} {params.running:q}"
            " {params.late_from:q} {params.probes:q}"
            " --dataset {input.datasets[#]:q} --circuit {input.circuits[#]:q} --mean-cache {input.mean_caches[#]:q}"
            " {params.k:q} {params.center} --output {output.tables[#]:q}",
            "direct-effects {params.model:q} --model-files {input.model:q} {params.running:q}"
            " {params.asked[#]:q} --operator {params.operators[#]:q}"
            " --template={params.templates[#]:q} --circuit {input.circuits[#]:q} {params.k:q}"
            " {params.max_operand:q} {params.problems:q} {params.seed:q}"
            " --output {output.problems[#]:q} --arrays-output {output.arrays[#]:q}",
            turns=len(FORMATS) * len(OPERATORS),
        )
