"""Transfer of the shared neurons' activations in all directions, per (model, operator)."""

TRANSFERS = expand(
    "results/{model}/transfer/{operator}/{direction}.parquet",
    operator=OPERATORS,
    direction=DIRECTIONS,
    allow_missing=True,
)
FIGURES["transfer transfer"] = ANSWERS["transfer"] = MODELS, {"transfer": [TRANSFERS, -2, -1]}
TABLES += expand(TRANSFERS, model=MODELS)


rule transfer:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        census=every_format("results/{model}/{format}/{operator}/census.parquet"),
        circuit="results/{model}/shared/{operator}/circuit.parquet",
    output:
        expand("results/{{model}}/transfer/{{operator}}/{direction}.parquet", direction=DIRECTIONS),
    log:
        "results/logs/transfer/{model}/{operator}.log",
    benchmark:
        "results/benchmarks/transfer/{model}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("transfer"),
        model=model_options,
        late_from=late_options,
        census=lambda wildcards, input: keyed(input.census, -3),
        k=KS,
        pairs=config["transfer_pairs"],
        center=CENTER,
        seed=config["seed"],
        folder=subpath(output[0], parent=True),
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance transfer {params.model:q} {params.late_from:q}"
        " --operator {wildcards.operator:q} --census {params.census:q} --circuit {input.circuit:q}"
        " --k {params.k} --pairs {params.pairs} {params.center} --seed {params.seed}"
        " --output-folder {params.folder:q} 2> {log:q}"


rule transfers_all:
    input:
        expand(TRANSFERS, model=MODELS),
    localrule: True
