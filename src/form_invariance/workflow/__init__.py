"""The Snakefile's helpers: checks of the configuration, job sizes, digests of the source, the plan."""
