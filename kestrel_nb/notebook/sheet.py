"""What a page is sent beside the data: the script of the live view, compressed, its sheet, minified, and the sheet of a
record: run_view.css up to LIVE ONLY with only the rules that can apply."""

from __future__ import annotations

import base64
import gzip
import re
from functools import cache
from pathlib import Path

_SHEET = Path(__file__).with_name("run_view.css")
_SCRIPT = Path(__file__).with_name("run_view.js")
_TOKEN = re.compile(r"/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"|[{};]", re.DOTALL)
_CLASS = re.compile(r"\.(kestrel-[a-z0-9-]+)")
_STATE = re.compile(r"\[data-(?:state|level)=\"([a-z-]+)\"\]")
_UNPACK = """const bytes = Uint8Array.from(atob("PACKED"), (character) => character.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
const address = URL.createObjectURL(new Blob([await new Response(stream).text()], { type: "text/javascript" }));
const view = await import(address);
URL.revokeObjectURL(address);
export default view.default;
"""

Rule = tuple[str, list["Rule"] | None]  # a declaration has no children


@cache
def live_sheet() -> str:
    """The whole sheet, for the live view."""
    css = _sheet()
    return _write(_parse(css), frozenset(_CLASS.findall(css)), frozenset(_STATE.findall(css)))


@cache
def live_script() -> str:
    """A module that unpacks run_view.js and hands on what that exports.

    Every run sends it anew, and plain it would be a third of all that a run may send. Each browser that JupyterLab
    supports has DecompressionStream.
    """
    packed = gzip.compress(_SCRIPT.read_bytes(), mtime=0)
    return _UNPACK.replace("PACKED", base64.b64encode(packed).decode("ascii"))


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
