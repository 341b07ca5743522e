"""Random activation maps, with which labels of heuristics are compared, per operator."""


rule heuristic_null:
    output:
        "<results>/heuristic_null/{operator}.safetensors",
    log:
        "<results>/logs/heuristic_null/{operator}.log",
    benchmark:
        "<results>/benchmarks/heuristic_null/{operator}.tsv"
    wildcard_constraints:
        operator=one_of(GRIDS),
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("heuristic-null"),
        grid=lambda wildcards: GRIDS[wildcards.operator],
        settings=settings("seed", max_operand="heuristic_max_operand"),
    resources:
        **table_job("heuristic_null", mem_mb=2000),
    shell:
        "python -m form_invariance heuristic-null {params.grid:q} {params.settings:q} --output {output:q} 2> {log:q}"
