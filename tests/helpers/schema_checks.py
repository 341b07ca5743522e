"""Whether a table in memory is as its schema says."""

from form_invariance.tables.columns import Schema

_TYPES = {"string": ("object", "str", "string")}


def check_columns(table, schema: Schema, without=()):
    """The schema's columns in any order, of its types, rows numbered from 0; `without` those added later."""
    expected = {name: column.type for name, column in schema.columns.items() if name not in without}
    assert set(table.columns) == set(expected)
    for name, kind in expected.items():
        assert str(table[name].dtype) in _TYPES.get(kind, (kind,)), name
    assert table.index.tolist() == list(range(len(table)))
