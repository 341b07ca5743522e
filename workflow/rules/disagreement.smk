"""What the formats' disagreement is made of, per model, from the exact effects of every cell and paraphrase."""

DISAGREEMENT = {
    table: [f"results/{{model}}/shared/{table}.parquet"] for table in ("disagreement", "format_correlation")
}
FIGURES["disagreement disagreement"] = ANSWERS["disagreement"] = MODELS, DISAGREEMENT
TABLES += expand("results/{model}/shared/{table}.parquet", model=MODELS, table=DISAGREEMENT)


rule disagreement:
    input:
        effects=every_cell("results/{model}/{format}/{operator}/indirect_effects.safetensors"),
        datasets=every_cell("results/{model}/{format}/{operator}/dataset.parquet"),
        corrupt=every_cell("results/{model}/{format}/{operator}/corrupt.parquet"),
        variants=[
            f"results/{{model}}/{name}/{operator}/paraphrase_effects.safetensors" for name, operator in VARIANTS
        ],
    output:
        components="results/{model}/shared/disagreement.parquet",
        correlation="results/{model}/shared/format_correlation.parquet",
    log:
        "results/logs/disagreement/{model}.log",
    benchmark:
        "results/benchmarks/disagreement/{model}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("disagreement"),
        effects=lambda wildcards, input: keyed(input.effects, -3, -2),
        datasets=lambda wildcards, input: keyed(input.datasets, -3, -2),
        corrupt=lambda wildcards, input: keyed(input.corrupt, -3, -2),
        variants=lambda wildcards, input: (
            ["--paraphrase-effects", *keyed(input.variants, -3, -2)] if VARIANTS else []
        ),
        bootstrap=setting("bootstrap"),
        seed=setting("seed"),
    resources:
        **table_job(mem_mb=6000),
    shell:
        "python -m form_invariance disagreement --effects {params.effects:q} --datasets {params.datasets:q}"
        " --corrupt-tables {params.corrupt:q} {params.variants:q}"
        " {params.bootstrap:q} {params.seed:q} --output {output.components:q}"
        " --correlation-output {output.correlation:q} 2> {log:q}"
