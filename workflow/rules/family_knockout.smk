"""Knockout of the neurons of a heuristic's family where their rule holds, and where it does not, per model."""

FAMILY_KNOCKOUT = {"family_knockout": ["<results>/{model}/shared/family_knockout.parquet"]}
FIGURES["family_knockout family_knockout"] = ANSWERS["family_knockout"] = GRID_MODELS, FAMILY_KNOCKOUT
TABLES += expand("<results>/{model}/shared/family_knockout.parquet", model=GRID_MODELS)


rule family_knockout:
    input:
        model="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        census=every_grid_cell("<results>/{model}/{format}/{operator}/census.parquet"),
        datasets=every_grid_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        heuristics=every_grid_cell("<results>/{model}/{format}/{operator}/heuristics.parquet"),
    output:
        "<results>/{model}/shared/family_knockout.parquet",
    log:
        "<results>/logs/family_knockout/{model}.log",
    benchmark:
        "<results>/benchmarks/family_knockout/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("family-knockout"),
        model=model_options,
        running=running_options,
        late_from=setting("late_from"),
        probes=probe_options,
        census=lambda wildcards, input: keyed(input.census, -3, -2),
        datasets=lambda wildcards, input: keyed(input.datasets, -3, -2),
        heuristics=lambda wildcards, input: keyed(input.heuristics, -3, -2),
        max_operand=setting("heuristic_max_operand", "max-operand"),
        prompts=setting("eval_prompts", "prompts"),
        k=setting("heuristic_k", "k"),
        center=CENTER,
        bootstrap=setting("bootstrap"),
        seed=setting("seed"),
    resources:
        **model_job(minutes=20),
    shell:
        "python -m form_invariance family-knockout {params.model:q} --model-files {input.model:q} {params.running:q}"
        " {params.late_from:q} {params.probes:q}"
        " --heuristics {params.heuristics:q} --datasets {params.datasets:q} --census {params.census:q}"
        " {params.max_operand:q} {params.prompts:q} {params.k:q} {params.center} {params.bootstrap:q}"
        " {params.seed:q} --output {output:q} 2> {log:q}"
