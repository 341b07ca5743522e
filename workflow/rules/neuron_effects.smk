"""What each neuron of the shared circuit does alone, in all cells of a model."""

TABLES += expand("results/{model}/{format}/{operator}/neuron_effects.parquet", **CELLS)


rule neuron_effects:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        datasets=every_cell("results/{model}/{format}/{operator}/dataset.parquet"),
        circuits=every_operator("results/{model}/shared/{operator}/classified_circuit.parquet") * len(FORMATS),
        mean_caches=[
            path for path in every_format("results/{model}/{format}/mean_cache.safetensors") for _ in OPERATORS
        ],
    output:
        tables=every_cell("results/{model}/{format}/{operator}/neuron_effects.parquet"),
    log:
        "results/logs/neuron_effects/{model}.log",
    benchmark:
        "results/benchmarks/neuron_effects/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("neuron-effects"),
        model=model_options,
        late_from=late_options,
        k=config["heuristic_k"],
        center=CENTER,
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "neuron-effects {params.model:q} {params.late_from:q}"
            " --dataset {input.datasets[#]:q} --circuit {input.circuits[#]:q} --mean-cache {input.mean_caches[#]:q}"
            " --k {params.k} {params.center} --output {output.tables[#]:q}",
            turns=len(FORMATS) * len(OPERATORS),
        )
