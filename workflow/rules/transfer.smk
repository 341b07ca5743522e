"""Transfer of the shared neurons' activations in all directions, per (model, operator)."""

ONE_TRANSFER = "<results>/{model}/transfer/{operator}/{direction}.parquet"
TRANSFERS = expand(ONE_TRANSFER, operator=OPERATORS, direction=DIRECTIONS, allow_missing=True)
TRANSFER_PAIRS = every_operator("<results>/{model}/shared/{operator}/transfer_pairs.parquet")
FIGURES["transfer"] = Figure("transfer", TRANSFERS)
FIGURES["transfer_contrasts"] = Figure("transfer", [CONTRASTS])
ANSWERS["transfer"] = [*TRANSFERS, CONTRASTS]
MEASUREMENTS += TRANSFER_PAIRS
TARGETS += expand([*TRANSFERS, *TRANSFER_PAIRS], model=MODELS)


rule transfer:
    input:
        model_files="<results>/{model}/model_files.parquet",
        censuses=every_format("<results>/{model}/{format}/{operator}/census.parquet"),
        exclude_train=every_format("<results>/{model}/{format}/{operator}/dataset.parquet"),
        ranking_tables=every_format("<results>/{model}/{format}/{operator}/ranking.parquet"),
        template_mean_caches=every_format("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
        circuit="<results>/{model}/shared/{operator}/circuit.parquet",
        circuit_halves="<results>/{model}/shared/{operator}/circuit_halves.parquet",
    output:
        expand(ONE_TRANSFER, direction=DIRECTIONS, allow_missing=True),
        pairs_output="<results>/{model}/shared/{operator}/transfer_pairs.parquet",
    log:
        "<results>/logs/transfer/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/transfer/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("transfer"),
        model=model_options,
        settings=settings("late_from", "k", "random_seeds", "matched_seeds", "center_logits", "seed"),
        pairs=settings(pairs="transfer_pairs"),
        # A function, because Snakemake would take the fields of a template for wildcards.
        tasks=lambda wildcards: COPYING_TASKS,
        output_folder=subpath(output[0], parent=True),
    resources:
        **model_job("transfer"),
    shell:
        "python -m form_invariance transfer {params.model:q} --model-files {input.model_files:q}"
        " --censuses {input.censuses:q} --exclude-train {input.exclude_train:q}"
        " --ranking-tables {input.ranking_tables:q} --template-mean-caches {input.template_mean_caches:q}"
        " --circuit {input.circuit:q} --circuit-halves {input.circuit_halves:q} --tasks {params.tasks:q}"
        " {params.settings:q} {params.pairs:q} --output-folder {params.output_folder:q}"
        " --pairs-output {output.pairs_output:q} 2> {log:q}"
