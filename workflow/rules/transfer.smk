"""Transfer of the shared neurons' activations in all directions, per (model, operator)."""


rule transfer:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        census=cells_of("results/{model}/{format}/{operator}/census.parquet", format=FORMATS),
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
        census=lambda wildcards, input: named(FORMATS, input.census),
        k=KS,
        pairs=config["transfer_pairs"],
        center="--center-logits" if config["center_logits"] else "--no-center-logits",
        seed=config["seed"],
        folder=lambda wildcards, output: str(Path(output[0]).parent),
    threads: 1
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance transfer {params.model:q} {params.late_from:q}"
        " --operator {wildcards.operator:q} --census {params.census:q} --circuit {input.circuit:q}"
        " --k {params.k} --pairs {params.pairs} {params.center} --seed {params.seed}"
        " --output-folder {params.folder:q} 2> {log:q}"
