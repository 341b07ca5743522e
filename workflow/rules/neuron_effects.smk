"""What each neuron of the shared circuit does alone, per (model, format, operator)."""

NEURON_EFFECTS = every_cell("<results>/{model}/{format}/{operator}/neuron_effects.parquet")
TARGETS += expand(NEURON_EFFECTS, model=MODELS)


rule neuron_effects:
    input:
        model_files="<results>/{model}/model_files.parquet",
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        circuit="<results>/{model}/shared/{operator}/classified_circuit.parquet",
        format_mean_cache="<results>/{model}/{format}/mean_cache.safetensors",
    output:
        "<results>/{model}/{format}/{operator}/neuron_effects.parquet",
    log:
        "<results>/logs/neuron_effects/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/neuron_effects/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("neuron-effects"),
        model=model_options,
        settings=settings("late_from", k="k_shown"),
    resources:
        **model_job("neuron_effects"),
    shell:
        "python -m form_invariance neuron-effects {params.model:q} --model-files {input.model_files:q}"
        " --dataset {input.dataset:q} --circuit {input.circuit:q} --format-mean-cache {input.format_mean_cache:q}"
        " {params.settings:q} --output {output:q} 2> {log:q}"
