"""Transfer of the shared neurons' activations in all directions and operators of a model."""

TRANSFERS = expand(
    "<results>/{model}/transfer/{operator}/{direction}.parquet",
    operator=OPERATORS,
    direction=DIRECTIONS,
    allow_missing=True,
)
TRANSFER_PAIRS = every_operator("<results>/{model}/shared/{operator}/transfer_pairs.parquet")
TRANSFER = {"transfer": [TRANSFERS, -2, -1]}
TRANSFER_CONTRASTS = {"transfer_contrasts": ["<results>/{model}/shared/transfer_contrasts.parquet"]}
FIGURES["transfer transfer"] = MODELS, TRANSFER
FIGURES["transfer transfer_contrasts"] = MODELS, TRANSFER_CONTRASTS
ANSWERS["transfer"] = MODELS, TRANSFER | TRANSFER_CONTRASTS
TABLES += expand([*TRANSFERS, *TRANSFER_PAIRS, *TRANSFER_CONTRASTS["transfer_contrasts"]], model=MODELS)


rule transfer:
    input:
        model_files="<results>/{model}/model_files.parquet",
        census=every_cell("<results>/{model}/{format}/{operator}/census.parquet"),
        exclude_train=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
        mean_caches=every_cell("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
        circuit=every_operator("<results>/{model}/shared/{operator}/circuit.parquet"),
    output:
        TRANSFERS,
        pairs_output=TRANSFER_PAIRS,
    log:
        "<results>/logs/transfer/{model}.log",
    benchmark:
        "<results>/benchmarks/transfer/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("transfer"),
        model=model_options,
        operators=OPERATORS,
        files=file_options(turns=len(OPERATORS), census=-3, rankings=-3, mean_caches=-3),
        settings=settings(
            "late_from", "k", "random_seeds", "matched_seeds", "center_logits", "seed", pairs="transfer_pairs"
        ),
        folder=subpath(output[0], ancestor=2),
    resources:
        **model_job("transfer"),
    shell:
        in_turn(
            "transfer {params.model:q} --operator {params.operators[#]:q} {params.files[#]:q} {params.settings:q}"
            " --output-folder {params.folder:q}/{params.operators[#]:q}",
            turns=len(OPERATORS),
        )


rule transfer_contrasts:
    input:
        transfer=TRANSFERS,
        transfer_pairs=TRANSFER_PAIRS,
    output:
        "<results>/{model}/shared/transfer_contrasts.parquet",
    log:
        "<results>/logs/transfer_contrasts/{model}.log",
    benchmark:
        "<results>/benchmarks/transfer_contrasts/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("transfer-contrasts"),
        tables=table_options({**TRANSFER, "transfer_pairs": [TRANSFER_PAIRS, -2]}),
        settings=settings("bootstrap", "seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance transfer-contrasts --tables {params.tables:q} {params.settings:q}"
        " --output {output:q} 2> {log:q}"


rule transfers_all:
    input:
        expand(TRANSFERS, model=MODELS),
    localrule: True
