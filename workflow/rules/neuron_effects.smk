"""What each neuron of the shared circuit does alone, per (model, format, operator)."""

TABLES += expand("results/{model}/{format}/{operator}/neuron_effects.parquet", **CELLS)


rule neuron_effects:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        dataset="results/{model}/{format}/{operator}/dataset.parquet",
        circuit="results/{model}/shared/{operator}/classified_circuit.parquet",
        mean_cache="results/{model}/{format}/mean_cache.safetensors",
    output:
        "results/{model}/{format}/{operator}/neuron_effects.parquet",
    log:
        "results/logs/neuron_effects/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/neuron_effects/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("neuron-effects"),
        model=model_options,
        late_from=late_options,
        k=config["heuristic_k"],
        center=CENTER,
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance neuron-effects {params.model:q} {params.late_from:q}"
        " --dataset {input.dataset:q} --circuit {input.circuit:q} --mean-cache {input.mean_cache:q}"
        " --k {params.k} {params.center} --output {output:q} 2> {log:q}"
