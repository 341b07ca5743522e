"""Dataset: correctly answered pairs, split, with corrupt partners, per (model, format, operator)."""


def other_censuses(wildcards) -> list[str]:
    """Censuses of the other operators, where corrupt partners come from them."""
    if config["corrupt"] == "within_operator":
        return []
    others = [operator for operator in OPERATORS if operator != wildcards.operator]
    return expand("results/{model}/{format}/{operator}/census.parquet", operator=others, **wildcards_but(wildcards))


def wildcards_but(wildcards) -> dict[str, str]:
    """The wildcards but the operator."""
    return {name: value for name, value in wildcards.items() if name != "operator"}


def other_census_options(wildcards) -> list[str]:
    """The option that names the other operators' censuses; none where there are none."""
    options = [f"{Path(path).parent.name}={path}" for path in other_censuses(wildcards)]
    return ["--other-census", *options] if options else []


rule dataset:
    input:
        census="results/{model}/{format}/{operator}/census.parquet",
        others=other_censuses,
    output:
        dataset="results/{model}/{format}/{operator}/dataset.parquet",
        corrupt="results/{model}/{format}/{operator}/corrupt.parquet",
    log:
        "results/logs/dataset/{model}/{format}/{operator}.log",
    benchmark:
        "results/benchmarks/dataset/{model}/{format}/{operator}.tsv"
    params:
        code=source_digest("dataset"),
        model=lambda wildcards: model_options(wildcards)[:4],
        train=config["train_prompts"],
        eval=config["eval_prompts"],
        others=other_census_options,
        corrupt_seeds=config["corrupt_seeds"],
        seed=config["seed"],
    threads: 1
    resources:
        mem_mb=1000,
    shell:
        "python -m form_invariance dataset {params.model:q} --operator {wildcards.operator:q}"
        " --census {input.census:q} {params.others:q} --train {params.train} --eval {params.eval}"
        " --corrupt-seeds {params.corrupt_seeds} --seed {params.seed}"
        " --output {output.dataset:q} --corrupt-output {output.corrupt:q} 2> {log:q}"
