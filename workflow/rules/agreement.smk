"""Whether the shared neurons do the same in every format, per (model, operator)."""

AGREEMENT = {
    table: [
        expand(
            f"<results>/{{model}}/shared/{{operator}}/{table}.parquet", operator=list(GRIDS), allow_missing=True
        ),
        -2,
    ]
    for table in ("agreement", "labelled", "activation_correlation")
}
FIGURES["agreement heuristics"] = GRID_MODELS, {
    "heuristics": [HEURISTICS, -3, -2],
    **{table: AGREEMENT[table] for table in ("agreement", "labelled")},
}
ANSWERS["agreement"] = GRID_MODELS, AGREEMENT
if GRIDS:
    TABLE_JOBS["agreement"] = {
        "inputs": {
            "neurons": ["<results>/{model}/shared/{operator}/labelled_neurons.parquet"],
            "heuristics": [every_format("<results>/{model}/{format}/{operator}/heuristics.parquet"), -3],
            "maps": [every_format("<results>/{model}/{format}/{operator}/activation_maps.safetensors"), -3],
        },
        "outputs": {
            "output": "<results>/{model}/shared/{operator}/agreement.parquet",
            "labelled_output": "<results>/{model}/shared/{operator}/labelled.parquet",
            "correlation_output": "<results>/{model}/shared/{operator}/activation_correlation.parquet",
        },
        "only": {"operator": list(GRIDS)},
        "settings": lambda wildcards: [*option("operator", wildcards.operator), *settings("permutations", "seed")],
        "resources": {"mem_mb": 2000},
    }


rule agreements_all:
    input:
        expand(AGREEMENT["agreement"][0], model=MODELS),
    localrule: True
