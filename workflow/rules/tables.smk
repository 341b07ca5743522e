"""Jobs that compute tables from files of the run, without a model: one rule for each entry of TABLE_JOBS, all alike.

An entry has
- inputs: by the option of the command, its files, then the parts of a path that are its key (`table_options`);
- outputs: by option, one path each; the wildcards of the first one name the log;
- settings: further options, or a function of the wildcards that gives them;
- only: the values of wildcards that are not of all cells;
- resources: memory and minutes;
- priority: above that of other jobs, 0.
"""

import re

for command, job in TABLE_JOBS.items():
    inputs, outputs, only = job["inputs"], job["outputs"], job.get("only", {})
    rule_name, place = command.replace("-", "_"), PurePosixPath(*re.findall(r"\{\w+\}", [*outputs.values()][0]))
    for path in outputs.values():
        TABLES += expand(path, **{key: names for key, names in {**CELLS, **only}.items() if f"{{{key}}}" in path})

    rule:
        name:
            rule_name
        input:
            **{option: paths for option, (paths, *_) in inputs.items()},
        output:
            **outputs,
        log:
            f"<results>/logs/{rule_name}/{place}.log",
        benchmark:
            f"<results>/benchmarks/{rule_name}/{place}.tsv"
        wildcard_constraints:
            **{key: one_of(names) for key, names in only.items()},
        priority: job.get("priority", 0)
        conda:
            "../../envs/cpu.yaml"
        params:
            code=source_digest(command),
            command=command,
            files=file_options(**{name: parts for name, (_, *parts) in inputs.items()}),
            settings=job.get("settings", []),
        resources:
            **table_job(**job["resources"]),
        shell:
            "python -m form_invariance {params.command} {params.files:q} {params.settings:q} 2> {log:q}"
