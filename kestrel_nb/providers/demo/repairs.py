"""Rules that repair a failed cell. Each gives a whole corrected cell that Python can read, or nothing at all."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from .quoting import code

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
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Case:
    """What failed: the cell, the type of its error and what that says, and the last line of the cell it came through
    (from 1 on; 0: unknown)."""

    source: str
    type: str
    message: str
    line: int

    @property
    def failing(self) -> str:
        """The text of the line that failed."""
        lines = self.source.split("\n")
        return lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Mend:
    """A corrected cell and a sentence that says what was changed."""

    code: str
    why: str


@dataclass(frozen=True, slots=True)
class Look:
    """What has to be known first: the names of all variables, or what one of them is like."""

    variable: str = ""


Known = Callable[[Look], str | None]
"""What a look has shown; None when it was not taken, an empty text when it can't be or showed nothing."""


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


# ---- syntax -------------------------------------------------------------------------------------------------------


def _syntax_error(case: Case, known: Known) -> Mend | None:
    lines = case.source.split("\n")
    if not 0 < case.line <= len(lines):
        return None
    for tries in (_colon, _brackets, _quote, _comparison, _print):
        for candidate, why in tries(case, lines):
            if tree_of(candidate) is not None:
                return Mend(candidate, why)
    return None


def _line_changed(lines: Sequence[str], number: int, text: str) -> str:
    return "\n".join([*lines[: number - 1], text, *lines[number:]])


def _colon(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    if case.message != "expected ':'":
        return
    line, why = lines[case.line - 1].rstrip(), f"A colon was missing at the end of line {case.line}."
    yield _line_changed(lines, case.line, f"{line}:"), why
    for mark in re.finditer(r"\s*#", line):
        yield _line_changed(lines, case.line, f"{line[: mark.start()]}:{line[mark.start() :]}"), why


def _brackets(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not re.search(r"was never closed|incomplete input|unexpected EOF|forgot a comma|invalid syntax", case.message):
        return
    for number in dict.fromkeys((case.line, len("\n".join(lines).rstrip().split("\n")))):
        missing = _open_brackets("\n".join(lines[:number]))
        if missing:
            text = lines[number - 1].rstrip() + missing
            many = "brackets were" if len(missing) > 1 else "bracket was"
            yield _line_changed(lines, number, text), f"The closing {many} missing in line {number}: {code(missing)}."


def _open_brackets(text: str) -> str:
    """What would close the brackets that ``text`` leaves open; nothing when a string or a bracket is odd."""
    bare = re.sub(r"'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|#[^\n]*", "", text, flags=re.S)
    stack: list[str] = []
    for mark in re.findall(r"[()\[\]{}'\"]", bare):
        if mark in _CLOSING:
            stack.append(_CLOSING[mark])
        elif not stack or stack.pop() != mark:
            return ""
    return "".join(reversed(stack))


def _quote(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not case.message.startswith("unterminated string literal"):
        return
    line = lines[case.line - 1].rstrip()
    for quote in sorted({mark for mark in line if mark in "'\""}, key=line.rindex, reverse=True):
        for end in range(len(line), len(line.rstrip(")]},:; ")) - 1, -1):
            text = f"{line[:end]}{quote}{line[end:]}"
            yield _line_changed(lines, case.line, text), f"A closing quote was missing in line {case.line}."


def _comparison(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    single = list(re.finditer(r"(?<![=!<>:+\-*/%|&^@])=(?!=)", lines[case.line - 1]))
    if "instead of '='" in case.message and len(single) == 1:
        line, at = lines[case.line - 1], single[0].start()
        text = f"{line[:at]}={line[at:]}"
        yield _line_changed(lines, case.line, text), f"Line {case.line} assigns with {code('=')} where it compares."


def _print(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    old = re.fullmatch(r"(\s*)print\s+(.+?)\s*", lines[case.line - 1])
    if "Missing parentheses in call to 'print'" in case.message and old:
        yield _line_changed(lines, case.line, f"{old[1]}print({old[2]})"), "print needs parentheses."


_RULES: dict[str, Callable[[Case, Known], Mend | Look | None]] = {
    "NameError": _name_error,
    "AttributeError": _attribute_error,
    "ModuleNotFoundError": _module_error,
    "KeyError": _key_error,
    "ColumnNotFoundError": _key_error,
    "TypeError": _type_error,
    "SyntaxError": _syntax_error,
}


# ---- text and tree ------------------------------------------------------------------------------------------------


def tree_of(source: str) -> ast.Module | None:
    """The cell as Python reads it, lines of magics and of the shell set aside; None when it can't be read."""
    lines = source.split("\n")
    plain = "\n".join(re.sub(r"^(\s*)(?:%%|[%!?]).*", r"\1pass", line) for line in lines)
    try:
        return ast.parse(plain)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _span(node: ast.expr) -> tuple[int, int, int]:
    """Line, first and last column of a node on one line, columns in bytes as ``ast`` counts them."""
    return node.lineno, node.col_offset, node.end_col_offset or node.col_offset


def _replaced(source: str, places: Iterable[tuple[int, int, int]], new: str) -> str:
    lines = source.split("\n")
    for line, start, end in sorted(set(places), reverse=True):
        data = lines[line - 1].encode()
        lines[line - 1] = (data[:start] + new.encode() + data[end:]).decode()
    return "\n".join(lines)
