"""The shared circuit: neurons in the top k of every format, per (model, operator)."""

CIRCUITS = {"circuit": config["k"], "classified_circuit": [config["k_shown"]]}
EFFECTS = every_format("<results>/{model}/{format}/{operator}/indirect_effects.safetensors")
# The circuit whose neurons are classified has a file of its own, so that a change of k does not re-run the heuristics.
TABLE_JOBS["circuit"] = {
    "inputs": {"effects": [EFFECTS, -3]},
    "outputs": {"output": "<results>/{model}/shared/{operator}/{circuit}.parquet"},
    "only": {"circuit": CIRCUITS},
    "settings": lambda wildcards: [
        *option("k", CIRCUITS[wildcards.circuit]),
        *settings("membership", "seed"),
    ],
    "resources": {"mem_mb": 2000, "minutes": 3},
}
