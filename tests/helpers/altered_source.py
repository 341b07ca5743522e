"""A Python file with one definition changed by a program."""

import ast

from form_invariance.workflow.definitions import bound


def altered(text, name):
    """The text of a file in which a function or class does one thing more, or a constant is made otherwise."""
    tree = ast.parse(text)
    for statement in tree.body:
        if name in bound(statement):
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                statement.body.append(ast.Expr(ast.Constant(True)))
            else:
                statement.value = ast.IfExp(ast.Constant(True), statement.value, ast.Constant(None))
    return ast.unparse(ast.fix_missing_locations(tree))
