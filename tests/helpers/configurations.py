"""The shipped configuration, its schema, and what tests change in a configuration or another tree of keys."""

import copy

import yaml
from stub_checkout import ROOT

SHIPPED = yaml.safe_load((ROOT / "config/config.yaml").read_text())
SCHEMA = yaml.safe_load((ROOT / "config/schemas/config.schema.yaml").read_text())
SMALL = {
    **SHIPPED,
    "models": {"m": {"source": "embedded:embedded-shared"}},
    "operands": {"operand_min": 6, "operand_max": 12, "answer_min": 3, "answer_max": 40},
    "operators": {"addition": "a + b"},
    "train_prompts": 10,
    "eval_prompts": 10,
}


def places(tree, above=()):
    """The path of every key of a tree."""
    for key, value in tree.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from places(value, (*above, key))


def with_value(tree, path, value):
    """A tree with another value at a path (keys, or text with /); `...` as a value deletes the key."""
    tree = copy.deepcopy(tree)
    *above, last = path.split("/") if isinstance(path, str) else path
    section = tree
    for key in above:
        section = section[key]
    if value is ...:
        del section[last]
    else:
        section[last] = value
    return tree
