"""How far top-k neurons overlap: of the formats of each operator, of the operators of each format, of any two cells."""

OVERLAP = {
    table: [
        every_operator(f"<results>/{{model}}/shared/{{operator}}/{table}.parquet"),
        -2,
    ]
    for table in ("overlap", "reliability")
}
OPERATOR_OVERLAP = ["<results>/{model}/shared/operator_overlap.parquet"]
DIFFERING = ["<results>/{model}/shared/differing.parquet"]
FORMAT_CORRELATION = ["<results>/{model}/shared/format_correlation.parquet"]
FIGURES["overlap overlap"] = MODELS, {**OVERLAP, "operator_overlap": [OPERATOR_OVERLAP]}
FIGURES["overlap differing"] = MODELS, {"differing": [DIFFERING]}
ANSWERS["overlap"] = MODELS, {**OVERLAP, "format_correlation": FORMAT_CORRELATION}
TABLE_JOBS["overlap"] = {
    "inputs": {"effects": [EFFECTS, -3]},
    "outputs": {
        "output": "<results>/{model}/shared/{operator}/overlap.parquet",
        "reliability_output": "<results>/{model}/shared/{operator}/reliability.parquet",
    },
    "settings": settings("k", "bootstrap", "membership", "seed"),
    "resources": {"mem_mb": 4000},
}
TABLE_JOBS["operator-overlap"] = {
    "inputs": {
        "effects": [every_operator(EFFECTS), -3, -2],
        "variant_effects": [
            [f"<results>/{{model}}/{form}/{operator}/indirect_effects.safetensors" for form, operator in VARIANTS],
            -3,
            -2,
        ],
        "datasets": [every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"), -3, -2],
        "corrupt_tables": [every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"), -3, -2],
    },
    "outputs": {
        "output": OPERATOR_OVERLAP[0],
        "differing_output": DIFFERING[0],
        "correlation_output": FORMAT_CORRELATION[0],
    },
    "settings": settings("k", "bootstrap", "membership", "seed"),
    "resources": {"mem_mb": 4000},
}
