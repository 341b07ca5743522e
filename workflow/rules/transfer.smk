"""Transfer of the shared neurons' activations in all directions and operators of a model."""

TRANSFERS = expand(
    "results/{model}/transfer/{operator}/{direction}.parquet",
    operator=OPERATORS,
    direction=DIRECTIONS,
    allow_missing=True,
)
TRANSFER_PAIRS = every_operator("results/{model}/shared/{operator}/transfer_pairs.parquet")
TRANSFER = {"transfer": [TRANSFERS, -2, -1]}
TRANSFER_CONTRASTS = {"transfer_contrasts": ["results/{model}/shared/transfer_contrasts.parquet"]}
FIGURES["transfer transfer"] = MODELS, TRANSFER
FIGURES["transfer transfer_contrasts"] = MODELS, TRANSFER_CONTRASTS
ANSWERS["transfer"] = MODELS, TRANSFER | TRANSFER_CONTRASTS
TABLES += expand([*TRANSFERS, *TRANSFER_PAIRS, *TRANSFER_CONTRASTS["transfer_contrasts"]], model=MODELS)


rule transfer:
    input:
        model="results/{model}/model_files.parquet",
        probes=every_format("results/{model}/{format}/probe.parquet") if NUMBER_OPERATORS else [],
        census=every_cell("results/{model}/{format}/{operator}/census.parquet"),
        datasets=every_cell("results/{model}/{format}/{operator}/dataset.parquet"),
        rankings=every_cell("results/{model}/{format}/{operator}/ranking.parquet"),
        mean_caches=every_cell("results/{model}/{format}/{operator}/mean_cache.safetensors"),
        circuits=every_operator("results/{model}/shared/{operator}/circuit.parquet"),
    output:
        TRANSFERS,
        pairs=TRANSFER_PAIRS,
    log:
        "results/logs/transfer/{model}.log",
    benchmark:
        "results/benchmarks/transfer/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("transfer"),
        model=model_options,
        late_from=config["late_from"],
        probes=lambda wildcards, input: ["--probes", *keyed(input.probes, -2)] if input.probes else [],
        operators=OPERATORS,
        census=lambda wildcards, input: by_operator(keyed(input.census, -3)),
        datasets=lambda wildcards, input: by_operator(input.datasets),
        rankings=lambda wildcards, input: by_operator(keyed(input.rankings, -3)),
        mean_caches=lambda wildcards, input: by_operator(keyed(input.mean_caches, -3)),
        k=KS,
        random_seeds=config["random_seeds"],
        matched_seeds=config["matched_seeds"],
        pairs=config["transfer_pairs"],
        center=CENTER,
        seed=config["seed"],
        folder=subpath(output[0], ancestor=2),
    resources:
        **model_job(minutes=60),
    shell:
        in_turn(
            "transfer {params.model:q} --late-from {params.late_from:q} {params.probes:q}"
            " --operator {params.operators[#]:q} --census {params.census[#]:q}"
            " --exclude-train {params.datasets[#]:q} --rankings {params.rankings[#]:q}"
            " --mean-caches {params.mean_caches[#]:q} --circuit {input.circuits[#]:q} --k {params.k}"
            " --random-seeds {params.random_seeds} --matched-seeds {params.matched_seeds} --pairs {params.pairs}"
            " {params.center} --seed {params.seed}"
            " --output-folder {params.folder:q}/{params.operators[#]:q} --pairs-output {output.pairs[#]:q}",
            turns=len(OPERATORS),
        )


rule transfer_contrasts:
    input:
        transfer=TRANSFERS,
        transfer_pairs=TRANSFER_PAIRS,
    output:
        "results/{model}/shared/transfer_contrasts.parquet",
    log:
        "results/logs/transfer_contrasts/{model}.log",
    benchmark:
        "results/benchmarks/transfer_contrasts/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("transfer-contrasts"),
        tables=table_options({**TRANSFER, "transfer_pairs": [TRANSFER_PAIRS, -2]}),
        bootstrap=config["bootstrap"],
        seed=config["seed"],
    resources:
        **table_job(mem_mb=4000),
    shell:
        "python -m form_invariance transfer-contrasts --tables {params.tables:q} --bootstrap {params.bootstrap}"
        " --seed {params.seed} --output {output:q} 2> {log:q}"


rule transfers_all:
    input:
        expand(TRANSFERS, model=MODELS),
    localrule: True
