"""What the Snakefile needs: the check of the configuration, job sizes, the digest of the source, the plan."""
