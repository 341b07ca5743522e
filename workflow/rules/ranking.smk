"""The final ranking, per (model, format, operator)."""

TABLES += expand("results/{model}/{format}/{operator}/ranking.parquet", **CELLS)


rule ranking:
    input:
        attribution="results/{model}/{format}/{operator}/attribution.parquet",
        effects="results/{model}/{format}/{operator}/indirect_effects.safetensors",
    output:
        "results/{model}/{format}/{operator}/ranking.parquet",
    log:
        "results/logs/ranking/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/ranking/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("ranking"),
    resources:
        **table_job(mem_mb=1000, minutes=3),
    shell:
        "python -m form_invariance ranking --attribution {input.attribution:q} --effects {input.effects:q}"
        " --output {output:q} 2> {log:q}"


rule rankings_all:
    input:
        expand("results/{model}/{format}/{operator}/ranking.parquet", **CELLS),
    localrule: True
