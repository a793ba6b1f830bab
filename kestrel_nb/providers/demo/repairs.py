"""Rules that repair a failed cell. Each gives a whole corrected cell that Python can read, or nothing at all."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from .cases import Case, Known, Look, Mend, tree_of
from .quoting import code
from .syntax_repairs import syntax_error

_FROM = {
    "collections": "Counter OrderedDict defaultdict deque",
    "dataclasses": "dataclass field",
    "datetime": "date timedelta",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "functools": "lru_cache partial reduce",
    "itertools": "combinations permutations product",
    "pathlib": "Path",
}
_WHOLE = (
    "asyncio base64 bisect calendar collections contextlib copy csv dataclasses datetime functools glob hashlib heapq "
    "io itertools json logging math numpy operator os pandas pathlib pickle pprint random re shutil sqlite3 "
    "statistics string subprocess sys tempfile textwrap time typing urllib uuid warnings zipfile"
)
IMPORTS = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "plt": "import matplotlib.pyplot as plt",
    "sns": "import seaborn as sns",
    "pl": "import polars as pl",
    **{name: f"import {name}" for name in _WHOLE.split()},
    **{name: f"from {module} import {name}" for module, names in _FROM.items() for name in names.split()},
}
"""Names that nearly always mean one import."""

MODULES = ("numpy", "pandas", "matplotlib", "seaborn", "scipy", "sklearn", "polars", "requests", "IPython", "plotly")


def repair(case: Case, known: Known) -> Mend | Look | None:
    """The repair of ``case``, or what to look at first, or None when no rule fits."""
    rule = _RULES.get(case.type.rpartition(".")[2])
    found = rule(case, known) if rule else None
    if isinstance(found, Mend) and (found.code == case.source or tree_of(found.code) is None):
        return None
    return found


# ---- names --------------------------------------------------------------------------------------------------------


def _name_error(case: Case, known: Known) -> Mend | Look | None:
    said = re.match(r"name '(\w+)' is not defined", case.message)
    if not said or (tree := tree_of(case.source)) is None:
        return None
    name = said[1]
    if name in IMPORTS:
        return Mend(_with_import(case.source, IMPORTS[name]), f"{code(name)} was not imported.")
    if _binds(tree, name):
        return None  # it is defined somewhere in the cell: what is wrong is the order
    near = _suggested(case.message)
    if near is None:
        listed = known(Look())
        if listed is None:
            return Look()
        near = _near(name, re.findall(r"^[\s\-*|]*`?([A-Za-z_]\w*)\b", listed, re.M))
    if near is None:
        return None
    places = [_span(node) for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    return Mend(_replaced(case.source, places, near), f"There is no {code(name)}; the nearest name is {code(near)}.")


def _binds(tree: ast.AST, name: str) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            return True
        if isinstance(node, ast.arg) and node.arg == name:
            return True
    return False


def _suggested(message: str) -> str | None:
    found = re.search(r"Did you mean: '(\w+)'\?$", message)
    return found[1] if found else None


def _near(name: str, words: Iterable[str]) -> str | None:
    usual = [word for word in dict.fromkeys(words) if word != name]
    same = [word for word in usual if _plain(word) == _plain(name)]
    return next(iter(same or get_close_matches(name, usual, n=1, cutoff=0.72)), None)


def _plain(word: str) -> str:
    return re.sub(r"[\W_]+", "", word).lower()


def _with_import(source: str, line: str) -> str:
    """``source`` with an import above it, below a cell magic and ``from __future__``."""
    lines = source.split("\n")
    at = 0
    for index, text in enumerate(lines):
        if text.startswith("%%") or text.startswith("from __future__"):
            at = index + 1
        elif text.strip():
            break
    return "\n".join([*lines[:at], line, *lines[at:]])


def _attribute_error(case: Case, known: Known) -> Mend | None:
    said = re.search(r"has no attribute '(\w+)'", case.message)
    near = _suggested(case.message)
    if not said or near is None or (tree := tree_of(case.source)) is None:
        return None
    wrong = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == said[1]]
    owners = {ast.dump(node.value) for node in wrong if node.lineno <= case.line <= (node.end_lineno or node.lineno)}
    if len(owners) != 1:
        return None
    places = []
    for node in wrong:
        if ast.dump(node.value) in owners:
            line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
            places.append((line, end - len(said[1].encode()), end))
    why = f"It has no attribute {code(said[1])}; the nearest one is {code(near)}."
    return Mend(_replaced(case.source, places, near), why)


def _module_error(case: Case, known: Known) -> Mend | None:
    said = re.match(r"No module named '(\w+)'", case.message)
    if not said or (tree := tree_of(case.source)) is None:
        return None
    public = [name for name in sorted(sys.stdlib_module_names) if not name.startswith("_")]
    near = _near(said[1], MODULES) or _near(said[1], public)
    if near is None or said[1] in MODULES:
        return None
    lines = case.source.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            index = node.lineno - 1
            lines[index] = re.sub(rf"(?<![\w.]){re.escape(said[1])}\b", near, lines[index], count=1)
    return Mend("\n".join(lines), f"There is no module {code(said[1])}; the nearest name is {code(near)}.")


# ---- keys ---------------------------------------------------------------------------------------------------------


def _key_error(case: Case, known: Known) -> Mend | Look | None:
    key = _key(case.message)
    if key is None or (tree := tree_of(case.source)) is None:
        return None
    for root, places in _uses(tree, key, case.line):
        shown = known(Look(root))
        if shown is None:
            return Look(root)
        columns = re.findall(r"^- (.+): [^:\n]*$", shown, re.M)
        near = _near(key, columns or [a or b for a, b in re.findall(r"'([^'\n]+)'\s*:|\"([^\"\n]+)\"\s*:", shown)])
        if near is not None:
            text = _replaced(case.source, places, _quoted(case.source, places[0], near))
            return Mend(text, f"{code(root)} has no {code(key)}; the nearest one is {code(near)}.")
    return None


def _key(message: str) -> str | None:
    """The text that was not found, when it is one text."""
    for form in (r"'([^'\\\n]+)'", r"\"\['([^'\\\n]+)'\] not in index\"", r"\"None of \[Index\(\['([^'\\\n]+)'\].*"):
        found = re.fullmatch(form, message)
        if found:
            return found[1]
    column = re.fullmatch(r"['\"]Column not found: (.+)['\"]", message)
    return column[1] if column else None


def _uses(tree: ast.AST, key: str, line: int) -> Iterator[tuple[str, list[tuple[int, int, int]]]]:
    """The variables that ``key`` is looked up in by the statement at ``line``, with all places of the cell."""
    places: dict[str, list[tuple[int, int, int]]] = {}
    near: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            root, inside = _root(node.value), [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            root, inside = _root(node.func.value), [*node.args, *(word.value for word in node.keywords)]
        else:
            continue
        for part in inside:
            for item in part.elts if isinstance(part, (ast.List, ast.Tuple)) else [part]:
                if root and isinstance(item, ast.Constant) and item.value == key:
                    places.setdefault(root, []).append(_span(item))
                    if node.lineno <= line <= (node.end_lineno or node.lineno):
                        near.append(root)
    for root in dict.fromkeys(near):
        yield root, sorted(set(places[root]))


def _root(node: ast.AST) -> str:
    """``df`` of ``df.groupby("x")["y"]``."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _quoted(source: str, place: tuple[int, int, int], text: str) -> str:
    """``text`` as a literal, in the quotes that stand at ``place``."""
    line = source.split("\n")[place[0] - 1].encode()
    quote = line[place[1] : place[1] + 1].decode()
    plain = quote in "'\"" and not re.search(r"['\"\\\n]", text)
    return f"{quote}{text}{quote}" if quote and plain else repr(text)


# ---- types --------------------------------------------------------------------------------------------------------


def _type_error(case: Case, known: Known) -> Mend | None:
    """ "a" + n: sure only when one part of a sum is no literal text."""
    said = r'can only concatenate str \(not "\w+"\) to str|unsupported operand type\(s\) for \+: \'\w+\' and \'str\''
    if not re.match(said, case.message) or (tree := tree_of(case.source)) is None:
        return None
    sums = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add)]
    inner = {id(n.left) for n in sums}
    found = []
    for node in sums:
        if id(node) not in inner and node.lineno <= case.line <= (node.end_lineno or node.lineno):
            parts = list(_summands(node))
            found += [[p for p in parts if not _is_text(p)]] if any(map(_is_text, parts)) else []
    if len(found) != 1 or len(found[0]) != 1 or found[0][0].end_lineno != found[0][0].lineno:
        return None
    place = _span(found[0][0])
    data = case.source.split("\n")[place[0] - 1].encode()[place[1] : place[2]].decode()
    why = f"{code(data)} is no text, and only text can be added to text."
    return Mend(_replaced(case.source, [place], f"str({data})"), why)


def _summands(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _summands(node.left)
        yield from _summands(node.right)
    else:
        yield node


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


_RULES: dict[str, Callable[[Case, Known], Mend | Look | None]] = {
    "NameError": _name_error,
    "AttributeError": _attribute_error,
    "ModuleNotFoundError": _module_error,
    "KeyError": _key_error,
    "ColumnNotFoundError": _key_error,
    "TypeError": _type_error,
    "SyntaxError": syntax_error,
}


# ---- text and tree ------------------------------------------------------------------------------------------------


def _span(node: ast.expr) -> tuple[int, int, int]:
    """Line, first and last column of a node on one line, columns in bytes as ``ast`` counts them."""
    return node.lineno, node.col_offset, node.end_col_offset or node.col_offset


def _replaced(source: str, places: Iterable[tuple[int, int, int]], new: str) -> str:
    lines = source.split("\n")
    for line, start, end in sorted(set(places), reverse=True):
        data = lines[line - 1].encode()
        lines[line - 1] = (data[:start] + new.encode() + data[end:]).decode()
    return "\n".join(lines)
