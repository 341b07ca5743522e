"""What random maps of a grid score: the null of the labels."""


rule heuristic_null:
    output:
        "<results>/heuristic_null/{operator}.safetensors",
    log:
        "<results>/logs/heuristic_null/{operator}.log",
    benchmark:
        "<results>/benchmarks/heuristic_null/{operator}.tsv"
    conda:
        "../../envs/cpu.yaml"
    params:
        code=source_digest("heuristic-null"),
        grid=lambda wildcards: GRIDS[wildcards.operator],
        settings=settings("seed", max_operand="heuristic_max_operand"),
    resources:
        **table_job(mem_mb=2000, minutes=60),
    shell:
        "python -m form_invariance heuristic-null {params.grid:q} {params.settings:q} --output {output:q} 2> {log:q}"
