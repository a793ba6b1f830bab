"""Markdown that does nothing, in hosts that take raw HTML too.

A model's Markdown is parsed and written anew from its parts: whatever is not a known part is escaped text. Values of
tools stand in code whose fence is longer than any run of backticks inside.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from .rendering import DEPTH, safe_address
from .visible import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

# Brackets, dollars and backslashes are spelled as entities: escaped with a backslash they would begin TeX.
_ENTITIES = {char: f"&#{ord(char)};" for char in "[]\\$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_SPECIAL = re.compile(r"[\[\]\\$<>&*_`~|]")
_LINE_START = re.compile(r"^([ \t]*)([#+=-]|\d+(?=[.)]))", re.MULTILINE)


def escape_markdown(text: str) -> str:
    """``text`` as Markdown that shows just it."""
    escaped = _SPECIAL.sub(lambda found: _ENTITIES.get(found.group(), "\\" + found.group()), visible(text))
    return _LINE_START.sub(_escape_start, escaped)


def _escape_start(found: re.Match[str]) -> str:
    sign = found.group(2)
    return found.group(1).replace("\t", " ")[:3] + (f"&#{ord(sign[0])};{sign[1:]}" if sign.isdigit() else "\\" + sign)


def code_span(text: str) -> str:
    """``text`` on one line as inline code."""
    line = " ".join(visible(text).split("\n")).replace("|", "¦") if "\n" in text else visible(text)
    if not line.strip():
        return ""
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line[0] in "` " or line[-1] in "` " else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(text: str, language: str = "text") -> str:
    """``text`` as a block of code."""
    body = visible(text).rstrip("\n")
    ticks = "`" * max(3, _longest_run(body) + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def table(columns: list[str], right: list[bool], rows: list[list[str]]) -> str:
    """A pipe table of plain values."""
    lines = [[_cell(name) for name in columns], ["-:" if flag else "-" for flag in right]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [*lines, *([_cell(value) for value in row] for row in rows)])


def _cell(value: str) -> str:
    return escape_markdown(value).replace("\n", " ")


def markdown_safe(text: str) -> str:
    """A model's Markdown without anything active: no HTML, image, TeX, or link but http, https and mailto."""
    from markdown_it.tree import SyntaxTreeNode

    source = visible(text)
    try:
        tree = SyntaxTreeNode(_parser().parse(source))
        return _blocks(tree.children)
    except RecursionError:
        return fence(source)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False, "maxNesting": DEPTH}).enable(["table", "strikethrough"])


def _blocks(nodes: list[SyntaxTreeNode], between: str = "\n\n") -> str:
    return between.join(filter(None, (_block(node) for node in nodes)))


def _block(node: SyntaxTreeNode) -> str:
    kind = node.type
    if kind in ("fence", "code_block"):
        return fence(node.content)
    if kind == "heading":
        return f"**{_inlines(node.children)}**"
    if kind in ("bullet_list", "ordered_list"):
        return _list(node)
    if kind == "blockquote":
        return "\n".join(f"> {line}".rstrip() for line in _blocks(node.children).split("\n"))
    if kind == "hr":
        return "---"
    if kind == "table":
        return _table(node)
    return _inlines(node.children)


def _list(node: SyntaxTreeNode) -> str:
    start = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 0
    items = []
    for number, item in enumerate(node.children):
        marker = f"{start + number}. " if node.type == "ordered_list" else "- "
        lines = _blocks(item.children, "\n\n").split("\n")
        items.append(marker + ("\n" + " " * len(marker)).join(lines))
    return re.sub(r"[ \t]+(?=\n)", "", "\n".join(items))


def _table(node: SyntaxTreeNode) -> str:
    rows = [
        [_inlines(cell.children).replace("\n", " ") for cell in row.children]
        for part in node.children
        for row in part.children
    ]
    rule = ["-"] * len(rows[0])
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]])


def _inlines(nodes: list[SyntaxTreeNode]) -> str:
    return "".join(_inline(node) for node in nodes)


_AROUND = {"strong": "**", "em": "*", "s": "~~"}


def _inline(node: SyntaxTreeNode) -> str:
    kind = node.type
    if kind == "inline":
        return _inlines(node.children)
    if kind in _AROUND:
        return f"{_AROUND[kind]}{_inlines(node.children)}{_AROUND[kind]}"
    if kind == "code_inline":
        return code_span(node.content)
    if kind == "softbreak":
        return "\n"
    if kind == "hardbreak":
        return "\\\n"
    if kind == "link":
        return _link(node)
    if kind == "image":
        return f"{escape_markdown(node.content or 'image')} ({escape_markdown(str(node.attrs.get('src', '')))})"
    return escape_markdown(node.content)


def _link(node: SyntaxTreeNode) -> str:
    label, address = _inlines(node.children), str(node.attrs.get("href", ""))
    if not safe_address(address):
        return f"{label} ({escape_markdown(address)})"
    return f"[{label}](<{_address(address)}>)"


def _address(address: str) -> str:
    quoted: dict[str, Any] = {char: f"%{ord(char):02X}" for char in "<>\"'`\\$|*_[]{} \n"} | {"_": "_", "*": "*"}
    return "".join(str(quoted.get(char, char)) for char in visible(address))
