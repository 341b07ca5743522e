"""Jobs that compute tables from files of the run, without a model: one rule for each entry of TABLE_JOBS, all alike.

An entry has
- inputs: by the option of the command, its files, then the parts of a path that are its key (`table_options`);
- outputs: by option, one path each; the first is `output`, whose wildcards name the log;
- params: further options;
- only: the values of wildcards that are not of all cells;
- resources: memory and minutes.
"""

import re

from form_invariance.workflow.rule_options import input_options

for command, job in TABLE_JOBS.items():
    name, inputs, outputs = command.replace("-", "_"), job["inputs"], job["outputs"]
    params, only = job.get("params", {}), job.get("only", {})
    options = [f"{{params.{param}:q}}" for param in ("inputs", *params)]
    options += [f"--{output.replace('_', '-')} {{output.{output}:q}}" for output in outputs]
    place = "/".join(re.findall(r"\{\w+\}", outputs["output"]))
    for path in outputs.values():
        wildcards = {key: names for key, names in {**CELLS, **only}.items() if f"{{{key}}}" in path}
        TABLES += expand(path, **wildcards)

    rule:
        name:
            name
        input:
            **{name: paths for name, (paths, *_) in inputs.items()},
        output:
            **outputs,
        log:
            f"results/logs/{name}/{place}.log",
        benchmark:
            f"results/benchmarks/{name}/{place}.tsv"
        wildcard_constraints:
            **{key: one_of(names) for key, names in only.items()},
        conda:
            "../../envs/cpu.yaml"
        params:
            **params,
            code=source_digest(command),
            inputs=input_options(inputs),
        resources:
            **table_job(**job["resources"]),
        shell:
            f"python -m form_invariance {command} {' '.join(options)} 2> {{log:q}}"
