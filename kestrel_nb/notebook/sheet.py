"""What a page is sent beside the data: the script and sheet of the live view without comments and indentation, and
the sheet of a record: run_view.css up to LIVE ONLY, minified, with only the rules that can apply."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_SHEET = Path(__file__).with_name("run_view.css")
_SCRIPT = Path(__file__).with_name("run_view.js")
_TOKEN = re.compile(r"/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"|[{};]", re.DOTALL)
_CLASS = re.compile(r"\.(kestrel-[a-z0-9-]+)")
_STATE = re.compile(r"\[data-(?:state|level)=\"([a-z-]+)\"\]")
# Texts and patterns are kept as they are; elsewhere no space is needed beside these signs.
_JS_SPACES = re.compile(
    r"(\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`|(?<=[(=,])\s*/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*)"
    r"| ?(=>|===|!==|&&|\|\||[=?:,{}]) ?"
)

Rule = tuple[str, list["Rule"] | None]  # a declaration has no children


@cache
def live_sheet() -> str:
    """The whole sheet, for the live view."""
    css = _sheet()
    return _write(_parse(css), frozenset(_CLASS.findall(css)), frozenset(_STATE.findall(css)))


@cache
def live_script() -> str:
    """The module of the live view. A comment in it stands on lines of its own, and no text goes over a line's end."""
    lines = (line.strip() for line in _SCRIPT.read_text("utf-8").splitlines())
    script = "\n".join(line for line in lines if line and not line.startswith(("//", "/*", "*")))
    return _JS_SPACES.sub(lambda found: found[1] or found[2], script)


def _sheet() -> str:
    return _SHEET.read_text("utf-8")


@cache
def _rules() -> list[Rule]:
    return _parse(_sheet().split("/* ==== LIVE ONLY", 1)[0])


def _parse(css: str) -> list[Rule]:
    stack: list[list[Rule]] = [[]]
    text, position = "", 0
    for found in _TOKEN.finditer(css):
        text += css[position : found.start()]
        position, token = found.end(), found.group()
        if token.startswith('"'):
            text += token
        elif token == "{":
            children: list[Rule] = []
            stack[-1].append((_squeeze(text), children))
            stack.append(children)
            text = ""
        elif token in (";", "}"):
            if text.strip():
                stack[-1].append((_squeeze(text, declaration=True), None))
            text = ""
            if token == "}":
                stack.pop()
    return stack[0]


def _squeeze(text: str, *, declaration: bool = False) -> str:
    text = re.sub(r"\s+", " ", text.strip())
    text = re.sub(r" ?, ", ",", text)
    if declaration:
        name, _, value = text.partition(":")
        return f"{name.strip()}:{value.strip()}"
    return re.sub(r" ?> ?", ">", text) if not text.startswith("@") else text


def record_sheet(html: str) -> str:
    """The rules whose classes and states occur in ``html``; at most 12 kB."""
    classes = {name for value in re.findall(r' class="([^"]*)"', html) for name in value.split()}
    states = set(re.findall(r' data-(?:state|level)="([^"]*)"', html))
    return _write(_rules(), frozenset(classes), frozenset(states))


def _write(rules: list[Rule], classes: frozenset[str], states: frozenset[str]) -> str:
    return "".join(_rule(head, children, classes, states) for head, children in rules)


def _rule(head: str, children: list[Rule] | None, classes: frozenset[str], states: frozenset[str]) -> str:
    if children is None:
        return f"{head};"
    if not head.startswith("@"):
        head = ",".join(part for part in head.split(",") if _applies(part, classes, states))
    body = _write(children, classes, states) if head else ""
    return f"{head}{{{body.removesuffix(';')}}}" if body else ""


def _applies(selector: str, classes: frozenset[str], states: frozenset[str]) -> bool:
    return set(_CLASS.findall(selector)) <= classes and set(_STATE.findall(selector)) <= states
