"""Transfer of the shared neurons' activations in all directions, per (model, operator)."""

ONE_TRANSFER = "<results>/{model}/transfer/{operator}/{direction}.parquet"
TRANSFERS = expand(ONE_TRANSFER, operator=OPERATORS, direction=DIRECTIONS, allow_missing=True)
TRANSFER_PAIRS = every_operator("<results>/{model}/shared/{operator}/transfer_pairs.parquet")
TRANSFER = {"transfer": [TRANSFERS, -2, -1]}
FIGURES["transfer"] = "transfer", MODELS, TRANSFER
TABLES += expand([*TRANSFERS, *TRANSFER_PAIRS], model=MODELS)


rule transfer:
    input:
        model_files="<results>/{model}/model_files.parquet",
        census=every_format("<results>/{model}/{format}/{operator}/census.parquet"),
        datasets=every_format("<results>/{model}/{format}/{operator}/dataset.parquet"),
        rankings=every_format("<results>/{model}/{format}/{operator}/ranking.parquet"),
        means=every_format("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
        circuit="<results>/{model}/shared/{operator}/circuit.parquet",
    output:
        expand(ONE_TRANSFER, direction=DIRECTIONS, allow_missing=True),
        by_pair="<results>/{model}/shared/{operator}/transfer_pairs.parquet",
    log:
        "<results>/logs/transfer/{model}/{operator}.log",
    benchmark:
        "<results>/benchmarks/transfer/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("transfer"),
        model=model_options,
        census=lambda wildcards, input: keyed(input.census, -3),
        rankings=lambda wildcards, input: keyed(input.rankings, -3),
        means=lambda wildcards, input: keyed(input.means, -3),
        settings=settings(
            "late_from", "k", "random_seeds", "matched_seeds", "center_logits", "seed", pairs="transfer_pairs"
        ),
        folder=subpath(output[0], parent=True),
    resources:
        **model_job("transfer"),
    shell:
        "python -m form_invariance transfer {params.model:q} --model-files {input.model_files:q}"
        " --operator {wildcards.operator:q} --census {params.census:q} --exclude-train {input.datasets:q}"
        " --rankings {params.rankings:q} --mean-caches {params.means:q} --circuit {input.circuit:q}"
        " {params.settings:q} --output-folder {params.folder:q} --pairs-output {output.by_pair:q} 2> {log:q}"


rule transfers_all:
    input:
        expand(TRANSFERS, model=MODELS),
    localrule: True
