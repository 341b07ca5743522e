"""Knockout of the neurons of a heuristic's family where their rule holds, and where it does not, per model."""

FAMILY_KNOCKOUT = {"family_knockout": ["results/{model}/shared/family_knockout.parquet"]}
FIGURES["family_knockout family_knockout"] = ANSWERS["family_knockout"] = NUMBER_MODELS, FAMILY_KNOCKOUT
TABLES += expand("results/{model}/shared/family_knockout.parquet", model=NUMBER_MODELS)


rule family_knockout:
    input:
        model="results/{model}/model_files.parquet",
        probes=onset_probes,
        datasets=every_number_cell("results/{model}/{format}/{operator}/dataset.parquet"),
        heuristics=every_number_cell("results/{model}/{format}/{operator}/heuristics.parquet"),
    output:
        "results/{model}/shared/family_knockout.parquet",
    log:
        "results/logs/family_knockout/{model}.log",
    benchmark:
        "results/benchmarks/family_knockout/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("family-knockout"),
        model=model_options,
        late_from=late_options,
        datasets=lambda wildcards, input: keyed(input.datasets, -3, -2),
        heuristics=lambda wildcards, input: keyed(input.heuristics, -3, -2),
        operators=[f"{name}={EXPRESSIONS[name]}" for name in NUMBER_OPERATORS],
        # A function, because Snakemake would take the fields of a template for wildcards.
        templates=lambda wildcards: [
            f"{form}/{name}={template}"
            for form, of_format in config["formats"].items()
            for name, template in of_format["templates"].items()
            if name in NUMBER_OPERATORS
        ],
        max_operand=config["heuristic_max_operand"],
        prompts=config["eval_prompts"],
        k=config["heuristic_k"],
        center=CENTER,
        bootstrap=config["bootstrap"],
        seed=config["seed"],
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance family-knockout {params.model:q} {params.late_from:q}"
        " --heuristics {params.heuristics:q} --datasets {params.datasets:q} --operators {params.operators:q}"
        " --templates {params.templates:q} --max-operand {params.max_operand} --prompts {params.prompts} --k {params.k} {params.center} --bootstrap {params.bootstrap}"
        " --seed {params.seed} --output {output:q} 2> {log:q}"
