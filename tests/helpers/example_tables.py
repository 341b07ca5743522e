"""Tables of a schema: a test names the columns that it is about, the others are filled in."""

from itertools import product

import numpy as np
import pandas as pd

_EMPTY = {"string": "", "int64": 0, "float64": np.nan, "bool": False}


def filled(schema, rows, names="", keys="", **alike):
    """A table of a schema whose other columns are empty.

    Rows are a frame, records, or tuples of `names`; `keys` are columns that readers add to the tables of several
    files; `alike` has columns with one value, or a function of the table before them.
    """
    table = pd.DataFrame(rows, columns=names.split() or None).assign(**alike).reset_index(drop=True)
    first = keys.split()
    assert {*table} <= {*first, *schema.columns}, {*table} - {*schema.columns}
    for name, column in schema.columns.items():
        values = table[name] if name in table else pd.Series(_EMPTY[column.type], table.index)
        table[name] = values.astype(column.type)
    return table[[*first, *schema.columns]]


def crossed(schema, keys="", **columns):
    """A row for each combination of the columns that are given as lists; the others as in `filled`."""
    lists = {name: values for name, values in columns.items() if isinstance(values, (list, tuple, range))}
    alike = {name: value for name, value in columns.items() if name not in lists}
    return filled(schema, list(product(*lists.values())), " ".join(lists), keys, **alike)


def joined(tables, *keys):
    """Tables by key, a tuple, as one table with key columns."""
    frames = [table.assign(**dict(zip(keys, key, strict=True))) for key, table in tables.items()]
    return pd.concat(frames, ignore_index=True)
