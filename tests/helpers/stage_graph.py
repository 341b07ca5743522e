"""The picture of the stages in docs/develop.md, made from the code.

`python tests/helpers/stage_graph.py` writes it into the page, between its markers.
"""

import re
from collections import defaultdict
from itertools import product

from job_graph import Job, whole
from stub_checkout import ROOT

from form_invariance.cli import command_modules
from form_invariance.stage_folders import ROOMS

PAGE = ROOT / "docs/develop.md"


def home(job: Job) -> str | None:
    """The stage whose command a job runs; None for figures and pages."""
    parts = command_modules()[job.command[0]].split(".")
    return parts[2] if parts[1] in ROOMS else None


def _reduced(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Edges without those that a longer path replaces."""
    nodes = {node for edge in edges for node in edge}
    far = set(edges)
    for middle, first, last in product(nodes, nodes, nodes):
        if (first, middle) in far and (middle, last) in far:
            far.add((first, last))
    return {
        (first, last)
        for first, last in edges
        if not any((first, node) in far and (node, last) in far for node in nodes - {first, last})
    }


def picture(jobs: list[Job]) -> str:
    """The stages as a Mermaid graph: an arrow where a stage reads what another writes."""
    homes = {job: stage for job in jobs if job.command and (stage := home(job))}
    edges = {
        (homes[one], homes[other])
        for one, other in product(homes, homes)
        if homes[one] != homes[other] and one.outputs & other.inputs
    }
    readers = defaultdict(list)
    for first, last in sorted(_reduced(edges)):
        readers[first].append(last)
    lines = [f"    {first} --> {' & '.join(last)}" for first, last in readers.items()]
    return "\n".join(["```mermaid", "graph TD", *lines, "```"])


def filled(page: str, made: str) -> str:
    """The page with its picture replaced."""
    return re.sub(
        r"(<!-- picture -->\n).*?(<!-- end of picture -->)",
        lambda marks: marks[1] + made + "\n" + marks[2],
        page,
        flags=re.DOTALL,
    )


def jobs_of_the_small_grid() -> list[Job]:
    """Every job of config/test.yaml."""
    return whole(ROOT, "--configfile", "config/test.yaml")


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), picture(jobs_of_the_small_grid())))
