"""Dot paths into JSON data: ``data.users[0].name``.

A part after a dot is a key, or the index of an item when it meets an array (``users.0``). Brackets hold an index, from
the end when negative (``users[-1]``), or a key in quotes, for keys with dots, brackets or nothing in them:
``["a.b"]``, ``['it']``. Backslashes in quotes are as in JSON. The empty path is the whole.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

from ...sandbox.output import plural

MAX_PATH = 10_000
KEYS_SHOWN = 12
TEXT_SHOWN = 40

_PLAIN = re.compile(r"[^.\[]+")
_INDEX = re.compile(r"\[(-?(?:0|[1-9][0-9]{0,17}))\]")
_QUOTED = re.compile(r'\[("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')\]', re.DOTALL)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_SIMPLE = re.compile(r"[^.\[\]\"'\\\s\x00-\x1f]+")


class PathFault(ValueError):
    """A path that can't be read, or that leads nowhere. The message says where it ends and what is there."""


class Index(int):
    """A part in brackets without quotes."""


def parts_of(path: str) -> list[str | Index]:
    """The parts of ``path``. Raises PathFault."""
    if len(path) > MAX_PATH:
        raise PathFault(f"path: too long, {len(path):,} characters of at most {MAX_PATH:,}")
    parts: list[str | Index] = []
    position = 0
    while position < len(path):
        if path[position] == "[":
            part, position = _bracketed(path, position)
        else:
            if path[position] == "." and parts:
                position += 1
            match = _PLAIN.match(path, position)
            if match is None:
                raise PathFault(f'path: a key is missing at character {position + 1}; an empty key is [""]')
            part, position = match.group(), match.end()
        parts.append(part)
    return parts


def _bracketed(path: str, position: int) -> tuple[str | Index, int]:
    index = _INDEX.match(path, position)
    if index:
        return Index(index[1]), index.end()
    quoted = _QUOTED.match(path, position)
    if quoted is None:
        raise PathFault(
            f'path: in brackets goes an index or a key in quotes, as in [0] or ["a.b"] (character {position + 1})'
        )
    text = quoted[1]
    if text[0] == "'":
        inner = re.sub(
            r"\\(.)|(\")", lambda match: "'" if match[1] == "'" else '\\"' if match[2] else match[0], text[1:-1]
        )
        text = f'"{inner}"'
    try:
        key = json.loads(text, strict=False)
    except ValueError:
        raise PathFault(f"path: the quoted key at character {position + 1} has a bad escape") from None
    return str(key), quoted.end()


def extract(value: Any, path: str) -> Any:
    """What ``path`` leads to in ``value``. Raises PathFault."""
    done = ""
    for part in parts_of(path):
        value = _step(value, part, done)
        done = joined(done, int(part) if isinstance(part, Index) else part)
    return value


def joined(path: str, part: str | int) -> str:
    """``path`` and one part more, written so that it can be read again."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    if not _SIMPLE.fullmatch(part):
        return f"{path}[{json.dumps(part, ensure_ascii=False)}]"
    return f"{path}.{part}" if path else part


def _step(value: Any, part: str | Index, done: str) -> Any:
    here = done or "the input"
    if isinstance(value, dict):
        if str(part) in value:
            return value[str(part)]
        raise PathFault(f"path: no key {_quoted(str(part))} in {_cut(here)}{_keys(value, str(part), done)}")
    if not isinstance(value, list):
        raise PathFault(f"path: {_cut(here)} is {_kind(value)}, so there is no {_cut(joined('', part))} in it")
    if not isinstance(part, Index) and not _NUMBER.fullmatch(part):
        raise PathFault(
            f"path: {_cut(here)} is an array of {plural(len(value), 'item')}; write an index, as in {_cut(done)}[0]"
        )
    index = int(part)
    if -len(value) <= index < len(value):
        return value[index]
    raise PathFault(f"path: no item {index} in {_cut(here)}, an array of {plural(len(value), 'item')}")


def _keys(value: dict[str, Any], wanted: str, done: str) -> str:
    if not value:
        return ", an empty object"
    begin = [key for key in list(value)[:1000] if key.startswith(f"{wanted}.") or key.startswith(f"{wanted}[")]
    if begin:
        return f"; a key with dots goes in brackets: {_cut(joined(done, begin[0]))}"
    names = [key for key in list(value)[:1000] if len(key) <= TEXT_SHOWN]
    near = difflib.get_close_matches(wanted[:TEXT_SHOWN], names, n=1, cutoff=0.7)
    if near:
        return f"; did you mean {_quoted(near[0])}?"
    more = ", …" if len(value) > KEYS_SHOWN else ""
    return f"; its keys: {', '.join(_quoted(key) for key in list(value)[:KEYS_SHOWN])}{more}"


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return "a text" if isinstance(value, str) else "a number"


def _quoted(text: str) -> str:
    return json.dumps(_cut(text), ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_SHOWN else f"{text[: TEXT_SHOWN - 1]}…"
