"""Which names a piece of code visibly changes the objects of, found in its syntax: ``df["x"] = 1``, ``rows.sort()``.

Code inside functions does not count: it does not run where it stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

# Methods of built-in containers, arrays and tables whose sole purpose is to change them.
_CHANGING = frozenset(
    ("append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse", "update", "setdefault",
     "add", "discard", "difference_update", "intersection_update", "symmetric_difference_update", "appendleft",
     "extendleft", "popleft", "rotate", "fill", "resize", "put", "itemset", "partition", "subtract")
)  # fmt: skip
_RUNNERS = ("time", "capture", "prun", "timeit")  # cell magics that run their body in the user's namespace
_ELSEWHERE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def changed_names(nodes: Iterable[ast.stmt]) -> set[str]:
    """The names in ``nodes``, statements that have run, whose objects were changed or replaced."""
    return {name for node in nodes for part in _parts(node) for name in _changed(part)}


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, _ELSEWHERE):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _parts(child)


def _changed(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield from _root(node)
    elif isinstance(node, ast.AugAssign):
        yield from _root(node.target)
    elif isinstance(node, ast.Call):
        yield from _called(node)


def _called(node: ast.Call) -> Iterator[str]:
    function = node.func
    if not isinstance(function, ast.Attribute):
        return
    in_place = any(
        option.arg == "inplace" and isinstance(option.value, ast.Constant) and option.value.value is True
        for option in node.keywords
    )
    if in_place or function.attr in _CHANGING:
        yield from _root(function.value)
    elif function.attr == "run_cell_magic" and len(node.args) == 3:
        name, _, body = (part.value if isinstance(part, ast.Constant) else None for part in node.args)
        if name in _RUNNERS and isinstance(body, str):
            yield from changed_names(_parsed(body))


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _root(node: ast.AST) -> Iterator[str]:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
