"""Stages 1 and 2, per (model, format, operator): attribution, then exact patching of the candidates, in shards or not.

Then the final ranking.
"""

PATCHED = "<results>/{model}/{format}/{operator}/indirect_effects.safetensors"
PIECE = "" if SHARDS == 1 else f"_{{shard}}_of_{SHARDS}"
if SHARDS > 1:
    PIECES = f"<results>/{{model}}/{{format}}/{{operator}}/indirect_effects{PIECE}.safetensors"
    TABLE_JOBS["merge-effects"] = {
        "inputs": {"shards": [expand(PIECES, shard=range(1, SHARDS + 1), allow_missing=True)]},
        "outputs": {"output": PATCHED},
        "resources": {"mem_mb": 2000, "minutes": 3},
    }
else:
    TABLES += expand(PATCHED, **CELLS)
RANKED = {"attribution": "<results>/{model}/{format}/{operator}/attribution.parquet"}
# The attribution table is one of the files that are read, unless the same job writes it.
PATCHING = (
    "patching {params.model:q} {params.files:q} {params.late_from:q} {params.shard:q} --output {output.effects:q}"
    + (" --attribution {output.attribution:q}" if SHARDS == 1 else "")
)

TABLE_JOBS["ranking"] = {
    "inputs": {"attribution": [RANKED["attribution"]], "effects": [PATCHED]},
    "outputs": {"output": "<results>/{model}/{format}/{operator}/ranking.parquet"},
    "resources": {"mem_mb": 1000, "minutes": 3},
}


rule patching:
    input:
        **(RANKED if SHARDS > 1 else {}),
        model_files="<results>/{model}/model_files.parquet",
        probes=onset_probes,
        dataset="<results>/{model}/{format}/{operator}/dataset.parquet",
        corrupt_table="<results>/{model}/{format}/{operator}/corrupt.parquet",
    output:
        **(RANKED if SHARDS == 1 else {}),
        effects=f"<results>/{{model}}/{{format}}/{{operator}}/indirect_effects{PIECE}.safetensors",
    log:
        f"<results>/logs/patching/{{model}}/{{format}}/{{operator}}{PIECE}.log",
    benchmark:
        f"<results>/benchmarks/patching/{{model}}/{{format}}/{{operator}}{PIECE}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=[source_digest("attribution"), source_digest("patching")],
        model=model_options,
        files=run_files(),
        ranking=settings("late_from", "candidates", "ranking_method"),
        late_from=settings("late_from"),
        shard=lambda wildcards: option("shard", f"{wildcards.get('shard', 1)}/{SHARDS}"),
    resources:
        **model_job(minutes=20),
    shell:
        in_turn(PATCHING) if SHARDS > 1 else in_turn(ATTRIBUTION, PATCHING)


rule rankings_all:
    input:
        expand("<results>/{model}/{format}/{operator}/ranking.parquet", **CELLS),
        expand("<results>/{model}/preflight.parquet", model=MODELS),
    localrule: True
