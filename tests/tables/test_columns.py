"""Every column of every table is read by a module that reads the table, or is listed here with its reason.

A module reads a table if it imports the schema and does more than write the table. It passes the table to modules
that it imports and to the templates of its folder. These read a column where an attribute or a whole string is its
name. Docstrings do not count, nor do the columns of a schema and the keys of a new row.
"""

import ast
import importlib
import re
from functools import cached_property

from stub_checkout import ROOT

from form_invariance.experiment.measurements import MEASUREMENTS

SOURCE = ROOT / "src"
SCHEMA = re.compile(r"^(\w+) = (?:Schema|by_prompt)\(", re.MULTILINE)
TAG = re.compile(r"{[{%].*?[%}]}", re.DOTALL)
NOISES = dict.fromkeys(("limits", "means_noise", "ranking_noise"), "for a user who asks what widens an interval")
CENTRED = {"centered": "for a user who compares tables of runs with and without it"}
BY_PROMPT = {
    "normalized_logit": "for a user who recomputes faithfulness",
    "permuted_answer": "read two imports away: `imposed` in experiment/contrasts/values.py",
}
NOT_READ = {
    "heuristics": dict.fromkeys(("lift", "p_value"), "for a user who moves the threshold of a label"),
    "reliability": {
        "by_probability": "for a user who ranks neurons by probability instead of effect",
        "raising": "for a user who asks what the sign of an effect does to the answer",
        "largest_prompt": "for a user who asks how much of an effect is due to one prompt",
    },
    "operator_overlap": {
        "format": "for a user who compares formats, which the figure averages",
        **dict.fromkeys(
            ("members", "positive", "intersection", "union", "candidates"), "for a user who recomputes a Jaccard"
        ),
    },
    "format_correlation": {
        "spearman": "for a user who distrusts a correlation with outliers",
        **dict.fromkeys(("reliability_first", "reliability_second"), "for a user who recomputes `corrected`"),
    },
    "probe": {"reachable": "for a user who compares an accuracy with its ceiling"},
    "census": {"logit": "for a user who works with logits instead of probabilities"},
    "ranking": {
        "probability_change": "for a user who ranks neurons by probability instead of effect",
        **dict.fromkeys(("attribution_score", "attribution_rank"), "for a user who asks what stage 1 found"),
    },
    "interventions": CENTRED
    | {"seed": "for a user who wants the spread over the draws of a control"}
    | dict.fromkeys(("normalized_logit", "good", "bad"), "for a user who recomputes faithfulness"),
    "transfer": CENTRED | {"seed": "for a user who wants the spread over the draws of a control"},
    "dataset": {
        "fields": "for a user who looks for a problem's row in the table of words",
        "whole_correct": "for a user who wants only problems whose every digit is right",
    },
    "corrupt": {
        "partner_operator": "for a user of corrupt: across_operators, where it may be another operator",
        "fields": "for a user who looks for a partner's row in the table of words",
        **dict.fromkeys(("digit", "carry"), "for a user who groups pairs by what the partner changes"),
    },
    "preflight": {
        **dict.fromkeys(("format", "operator", "asked", "right"), "for a user who chooses prompts"),
        **dict.fromkeys(("train_fits", "eval_fits", "all_fit"), "for a user who chooses the numbers of prompts"),
        **dict.fromkeys(
            ("enough", "reason", "correctable"),
            "for a user whose run stops because a cell has too few right answers",
        ),
    },
    **dict.fromkeys(MEASUREMENTS, BY_PROMPT),
    "contrasts": NOISES,
    "engine_check": dict.fromkeys(
        ("format", "operator", "layer", "within"), "for a user who looks for the cause of a deviation"
    ),
    "promoted_tokens": {"token": "for a user who needs the id, because two tokens may have the same text"},
    "precision": {"candidates": "for a user who wants the sample size"},
    "residual_exchange": dict.fromkeys(
        ("donor_probability", "own_probability"), "for a user who asks how near an output was to another"
    ),
    "residual_shares": {"permuted_answer": "for a user who asks which share is chance"},
    "residual_contrasts": NOISES
    | {"limit_error": "for a user who asks whether more resamples would change a verdict"}
    | dict.fromkeys(("cells", "prompts"), "for a user who wants the sample size"),
    "heads": {"donor_probability": "for a user who checks what the heads are ranked by"},
    "arrival_probes": {"train_prompts": "for a user who wants the sample size"},
    "family_knockout": NOISES,
}


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class Module:
    """A module's schemas, its imports, and the words by which it may read columns."""

    def __init__(self, path):
        text = path.read_text(encoding="utf-8")
        self.tree, self.folder, self.schemas = ast.parse(text), path.parent, SCHEMA.findall(text)
        imports = [node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom) and not self.schemas]
        self.imported = {(node.module, one.name) for node in imports for one in node.names}

    def reads(self, module, constant):
        """Whether it names the schema, not only to write the table or to list its columns."""
        if constant not in self.schemas and (module, constant) not in self.imported:
            return False
        nodes = list(ast.walk(self.tree))
        others = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "write_table"]
        others += [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == "columns"]
        skipped = {part for node in others for part in ast.walk(node)}
        return any(isinstance(node, ast.Name) and node.id == constant for node in nodes if node not in skipped)

    @cached_property
    def words(self):
        functions = ast.Module([node for node in self.tree.body if isinstance(node, ast.FunctionDef)], [])
        words, skipped = set(), set()
        for node in ast.walk(functions if self.schemas else self.tree):
            if isinstance(node, ast.Expr):
                skipped.add(node.value)
            elif isinstance(node, ast.Dict):  # A key that is renamed has a string as value, and is read.
                pairs = zip(node.keys, node.values, strict=True)
                skipped |= {key for key, value in pairs if not is_text(value)}
            elif isinstance(node, ast.Attribute):
                words.add(node.attr)
            elif is_text(node) and node not in skipped:
                words.add(node.value)
        return words

    @cached_property
    def template_words(self):
        pages = [path.read_text(encoding="utf-8") for path in self.folder.glob("*.html")]
        return {word for page in pages for tag in TAG.findall(page) for word in re.findall(r"\.(\w+)", tag)}


def read_words():
    """For each schema, the words by which its columns may be read."""
    paths = [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]
    modules = {".".join(path.relative_to(SOURCE).with_suffix("").parts): Module(path) for path in paths}
    del modules["form_invariance.tables.columns"]  # It describes columns that several tables have.
    for name, module in modules.items():
        for constant in module.schemas:
            schema = getattr(importlib.import_module(name), constant)
            constants = [constant, *(["MEASUREMENTS"] if schema.name in MEASUREMENTS else [])]
            readers = [one for one in modules.values() if any(one.reads(name, other) for other in constants)]
            imported = {
                word for one in readers for pair in one.imported for word in (pair[0], f"{pair[0]}.{pair[1]}")
            }
            passed_on = [modules[one].words for one in imported & modules.keys()]
            yield schema, set().union(*passed_on, *(one.words | one.template_words for one in readers))


def test_every_column_is_read_or_has_a_reason():
    words = list(read_words())
    assert len(words) > 35
    not_read = {schema.name: schema.columns.keys() - found for schema, found in words}
    assert {name: columns for name, columns in not_read.items() if columns} == {
        name: reasons.keys() for name, reasons in NOT_READ.items()
    }
    for schema, found in words:
        assert not {"the", "because", "nobody", "median"} & found, f"a word of a sentence reads {schema.name}"
