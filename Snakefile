"""The workflow, run from the root of the repository: see workflow/Snakefile."""


include: "workflow/Snakefile"


# The default target of an included file does not become this file's.
rule default:
    default_target: True
    input:
        rules.all.input,
    localrule: True
