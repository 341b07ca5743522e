"""What the formats' disagreement is made of, per model, from the exact effects of every cell and paraphrase."""

DISAGREEMENT = {
    table: [f"<results>/{{model}}/shared/{table}.parquet"] for table in ("disagreement", "format_correlation")
}
FIGURES["disagreement disagreement"] = ANSWERS["disagreement"] = MODELS, DISAGREEMENT
TABLE_JOBS["disagreement"] = {
    "inputs": {
        "effects": [every_cell("<results>/{model}/{format}/{operator}/indirect_effects.safetensors"), -3, -2],
        "datasets": [every_cell("<results>/{model}/{format}/{operator}/dataset.parquet"), -3, -2],
        "corrupt_tables": [every_cell("<results>/{model}/{format}/{operator}/corrupt.parquet"), -3, -2],
        "paraphrase_effects": [
            [
                f"<results>/{{model}}/{name}/{operator}/paraphrase_effects.safetensors"
                for name, operator in VARIANTS
            ],
            -3,
            -2,
        ],
    },
    "outputs": {
        "output": DISAGREEMENT["disagreement"][0],
        "correlation_output": DISAGREEMENT["format_correlation"][0],
    },
    "settings": settings("bootstrap", "seed"),
    "resources": {"mem_mb": 6000},
}
