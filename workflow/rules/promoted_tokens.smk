"""Which tokens each neuron of the shared circuits promotes, and on which rows of a table it is active."""

PROMOTED = "<results>/{model}/shared/promoted_tokens.parquet"
ROW_ACTIVATIONS = every_cell(
    "<results>/{model}/{format}/{operator}/row_activations.parquet", operator=TASK_OPERATORS
)
TARGETS += expand([PROMOTED, *ROW_ACTIVATIONS], model=MODELS)


rule promoted_tokens:
    input:
        model_files="<results>/{model}/model_files.parquet",
        circuits=every_operator("<results>/{model}/shared/{operator}/classified_circuit.parquet"),
    output:
        PROMOTED,
    log:
        "<results>/logs/promoted_tokens/{model}.log",
    benchmark:
        "<results>/benchmarks/promoted_tokens/{model}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("promoted-tokens"),
        model=model_options,
        k=settings(k="k_shown"),
    resources:
        **model_job("promoted_tokens"),
    shell:
        "python -m form_invariance promoted-tokens {params.model:q} --model-files {input.model_files:q}"
        " --circuits {input.circuits:q} {params.k:q} --output {output:q} 2> {log:q}"


rule row_activations:
    input:
        model_files="<results>/{model}/model_files.parquet",
        census="<results>/{model}/{format}/{operator}/census.parquet",
        circuit="<results>/{model}/shared/{operator}/classified_circuit.parquet",
    output:
        "<results>/{model}/{format}/{operator}/row_activations.parquet",
    log:
        "<results>/logs/row_activations/{model}/{format}/{operator}.log",
    benchmark:
        "<results>/benchmarks/row_activations/{model}/{format}/{operator}.tsv"
    conda:
        "../../envs/gpu.yaml"
    params:
        code=source_digest("row-activations"),
        model=model_options,
        k=settings(k="k_shown"),
    resources:
        **model_job("row_activations"),
    shell:
        "python -m form_invariance row-activations {params.model:q} --model-files {input.model_files:q}"
        " --census {input.census:q} --circuit {input.circuit:q} {params.k:q} --output {output:q} 2> {log:q}"
