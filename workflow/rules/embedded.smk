"""Training of the models that come with the package. They are shipped, so this is never part of `all`."""

from form_invariance.embedded.recipe import DIGITS, RECIPES

EMBEDDED = list(RECIPES)


rule train_embedded:
    input:
        expand("<results>/trained/{name}/README.md", name=EMBEDDED),
    localrule: True


rule train_one_embedded:
    input:
        config=lambda wildcards: ROOT / f"config/{'digits' if wildcards.name == DIGITS else 'config'}.yaml",
    output:
        card="<results>/trained/{name}/README.md",
        weights="<results>/trained/{name}/model.safetensors",
        config="<results>/trained/{name}/config.json",
        tokenizer="<results>/trained/{name}/tokenizer.json",
        tokenizer_config="<results>/trained/{name}/tokenizer_config.json",
    log:
        "<results>/logs/train_embedded/{name}.log",
    benchmark:
        "<results>/benchmarks/train_embedded/{name}.tsv"
    wildcard_constraints:
        name=one_of(EMBEDDED),
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("train-embedded"),
        folder=subpath(output.card, parent=True),
    resources:
        **table_job(mem_mb=2000, minutes=120),
    shell:
        "python -m form_invariance train-embedded --name {wildcards.name:q} --config {input.config:q}"
        " --output {params.folder:q} 2>&1 | tee -a {log:q} >&2"
