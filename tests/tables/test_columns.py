"""Every column of every table is read, or is listed here with its reason."""

import importlib
import re

from stub_checkout import ROOT

from form_invariance.tables.columns import Schema

PACKAGE = ROOT / "src/form_invariance"
READERS = ("answer", "figure", "contrasts")
"""Modules of a stage that read its tables."""
NOT_READ = {
    "contrasts": {"ranking_noise": "part of the limits", "means_noise": "part of the limits"},
    "corrupt": {"partner_operator": "tells where a partner is from, with corrupt: across_operators"},
    "format_correlation": {
        "spearman": "the less flattering of two correlations",
        "reliability_first": "what the corrected correlation is divided by",
        "reliability_second": "what the corrected correlation is divided by",
    },
    "heads": {"donor_probability": "what ranks the heads"},
    "heuristics": {"lift": "what decides a label", "p_value": "what decides a label"},
    "precision": {"rank_correlation": "for a user who chooses a precision"},
    "preflight": dict.fromkeys(("train_fits", "eval_fits", "correctable"), "why the run stops"),
    "probe": {"reachable": "the most that a probe can reach"},
    "ranking": dict.fromkeys(("attribution_score", "attribution_rank"), "what chose the candidates"),
    "reliability": {"largest_prompt": "how much of an effect is of one prompt"},
    "residual_contrasts": {"ranking_noise": "part of the limits", "means_noise": "part of the limits"},
    "residual_exchange": dict.fromkeys(("donor_probability", "own_probability"), "how near an output was"),
}


def test_every_column_is_read_or_has_a_reason():
    paths = [path for kind in ("*.py", "*.html", "*.js") for path in PACKAGE.rglob(kind)]
    words = {path: set(re.findall(r"\w+", path.read_text(encoding="utf-8"))) for path in paths}
    not_read, seen = {}, set()
    for path in words:
        if not re.search(r"= Schema\(", path.read_text(encoding="utf-8")):
            continue
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for schema in vars(importlib.import_module(name)).values():
            if isinstance(schema, Schema) and schema.name not in seen:
                seen.add(schema.name)
                elsewhere = [
                    words[other]
                    for other in words
                    if other != path and (other.parent != path.parent or other.stem in READERS)
                ]
                lacking = {column for column in schema.columns if not any(column in found for found in elsewhere)}
                not_read |= {schema.name: lacking} if lacking else {}
    assert len(seen) > 30
    assert not_read == {name: set(reasons) for name, reasons in NOT_READ.items()}
