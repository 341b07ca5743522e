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
        model="<results>/{model}/model_files.parquet",
        probes=every_format("<results>/{model}/{format}/probe.parquet"),
        census=every_cell("<results>/{model}/{format}/{operator}/census.parquet"),
        datasets=every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        rankings=every_cell("<results>/{model}/{format}/{operator}/ranking.parquet"),
        mean_caches=every_cell("<results>/{model}/{format}/{operator}/mean_cache.safetensors"),
        circuits=every_operator("<results>/{model}/shared/{operator}/circuit.parquet"),
    output:
        TRANSFERS,
        pairs=TRANSFER_PAIRS,
    log:
        "<results>/logs/transfer/{model}.log",
    benchmark:
        "<results>/benchmarks/transfer/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("transfer"),
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        operators=OPERATORS,
        census=lambda wildcards, input: by_operator(keyed(input.census, -3)),
        datasets=lambda wildcards, input: by_operator(input.datasets),
        rankings=lambda wildcards, input: by_operator(keyed(input.rankings, -3)),
        mean_caches=lambda wildcards, input: by_operator(keyed(input.mean_caches, -3)),
        k=setting("k"),
        random_seeds=setting("random_seeds"),
        matched_seeds=setting("matched_seeds"),
        pairs=setting("transfer_pairs", "pairs"),
        center=CENTER,
        seed=setting("seed"),
        folder=subpath(output[0], ancestor=2),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "transfer {params.model:q} --model-files {input.model:q} {params.running:q}"
            " {params.late_from:q} {params.probes:q}"
            " --operator {params.operators[#]:q} --census {params.census[#]:q}"
            " --exclude-train {params.datasets[#]:q} --rankings {params.rankings[#]:q}"
            " --mean-caches {params.mean_caches[#]:q} --circuit {input.circuits[#]:q} {params.k:q}"
            " {params.random_seeds:q} {params.matched_seeds:q} {params.pairs:q}"
            " {params.center} {params.seed:q}"
            " --output-folder {params.folder:q}/{params.operators[#]:q} --pairs-output {output.pairs[#]:q}",
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
        bootstrap=setting("bootstrap"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance transfer-contrasts --tables {params.tables:q} {params.bootstrap:q}"
        " {params.seed:q} --output {output:q} 2> {log:q}"


rule transfers_all:
    input:
        expand(TRANSFERS, model=MODELS),
    localrule: True
