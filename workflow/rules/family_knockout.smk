"""Knockout of the neurons of a heuristic's family where their rule holds, and where it does not, per model."""

FAMILY_KNOCKOUT = "<results>/{model}/shared/family_knockout.parquet"
if GRIDS:
    FIGURES["family_knockout"] = Figure("family_knockout", [FAMILY_KNOCKOUT])
    ANSWERS["family_knockout"] = [FAMILY_KNOCKOUT]
    TARGETS += expand(FAMILY_KNOCKOUT, model=MODELS)


rule family_knockout:
    input:
        model_files="<results>/{model}/model_files.parquet",
        censuses=every_grid_cell("<results>/{model}/{format}/{operator}/census.parquet"),
        datasets=every_grid_cell("<results>/{model}/{format}/{operator}/dataset.parquet"),
        heuristics=every_grid_cell("<results>/{model}/{format}/{operator}/heuristics.parquet"),
    output:
        FAMILY_KNOCKOUT,
    log:
        "<results>/logs/family_knockout/{model}.log",
    benchmark:
        "<results>/benchmarks/family_knockout/{model}.tsv"
    priority: 1
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("family-knockout"),
        model=model_options,
        settings=settings("late_from", "center_logits", "bootstrap", "seed", k="k_shown"),
        problems=settings(max_operand="heuristic_max_operand", prompts="eval_prompts"),
    resources:
        **model_job("family_knockout"),
    shell:
        "python -m form_invariance family-knockout {params.model:q} --model-files {input.model_files:q}"
        " --censuses {input.censuses:q} --datasets {input.datasets:q} --heuristics {input.heuristics:q}"
        " {params.problems:q} {params.settings:q} --output {output:q} 2> {log:q}"
