"""What an object holds that its own words, ``repr`` or ``str``, may say: tables, and what a key's name hides.

Looked at as it is kept, without running code of the object's, and only so far; what can't be seen to the end counts as
holding a table.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import re
import types
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..runtime.secrets import MASK, Masker
from .disclosure_kinds import VIEWS, hides, is_a, kind_of, read
from .static import classes_of, instance_members, members_of

SEEN = 3_000  # values that are looked at
# Libraries whose words for their objects tell of structure, never of data.
_STRUCTURAL = frozenset(("pandas", "torch", "keras", "matplotlib", "logging", "builtins"))
_CLOSED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.CodeType, types.FrameType)
_MEMBERS: dict[type, tuple[str, ...]] = {
    functools.partial: ("func", "args", "keywords"),
    slice: ("start", "stop", "step"),
    BaseException: ("args",),
    asyncio.Future: ("_result",),
    types.MethodType: ("__self__",),
}
_SEQUENCES = (list, tuple, set, frozenset, deque, *VIEWS)
_PAIR = re.compile(r"""(?<![\w.-])([\w.-]{1,60})(['"]?\s*[=:]\s*)b?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")


@dataclass(slots=True)
class Holdings:
    """``tables``: there is one, or may be one; ``secrets``: texts below names that look like a key's."""

    tables: bool
    secrets: set[str]

    def masked(self, words: str) -> str:
        """``words`` of the object without the secrets, whether they were found in it or merely have such a name."""
        words = Masker(self.secrets).mask(words)
        return _PAIR.sub(lambda found: f"{found[1]}{found[2]}{MASK}" if hides(found[1]) else found[0], words)


def holdings_of(value: Any) -> Holdings:
    """What ``value`` holds, itself not counted."""
    found, waiting, seen, left = Holdings(False, set()), deque(_parts(value)), {id(value)}, SEEN
    while waiting and left:
        name, part = waiting.popleft()
        left -= 1
        if is_a(part, str, bytes) and hides(name, part):
            found.secrets.add(str.__str__(part) if is_a(part, str) else bytes.decode(part, "latin-1"))
        if id(part) in seen or is_a(part, str, bytes, int, float, type(None), *_CLOSED):
            continue
        seen.add(id(part))
        if kind_of(part):
            found.tables = True
        else:
            waiting.extend(itertools.islice(_parts(part), left + 1))
    found.tables = (found.tables or bool(waiting)) and not _tells_structure(value)
    return found


def kept_in(value: Any) -> list[tuple[str, Any]]:
    """The members of an object as they are kept, by name."""
    known = next((names for kind, names in _MEMBERS.items() if is_a(value, kind)), ())
    kept = {name: read(lambda name=name: getattr(value, name), None) for name in known}  # type: ignore[misc]
    for kind in classes_of(value):
        for name, member in members_of(kind).items():
            if type(member) is types.MemberDescriptorType and not name.startswith("__"):
                kept.setdefault(name, read(lambda member=member: member.__get__(value), None))  # type: ignore[misc]
    return [*kept.items(), *((name, item) for name, item in instance_members(value).items() if is_a(name, str))]


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """What is in it, with a name where it has one."""
    parts: list[Iterable[tuple[Any, Any]]] = [kept_in(value)]
    if is_a(value, dict):
        parts.append(dict.items(value))
    elif is_a(value, types.MappingProxyType):
        parts.append(read(value.items, ()))
    base: Any = next((base for base in _SEQUENCES if is_a(value, base)), None)
    if base is not None:
        items: list[Any] = read(lambda: list(itertools.islice(base.__iter__(value), SEEN + 1)), [])
        parts.append((items[0] if len(items) == 2 and base is tuple else "", item) for item in items)
    return itertools.chain.from_iterable(parts)


def _tells_structure(value: Any) -> bool:
    """True when the words for the object are those of a library that says nothing of the data."""
    if is_a(value, BaseException, functools.partial, slice):
        return False
    home = next((kind for kind in classes_of(value) if members_of(kind).keys() & {"__repr__", "__str__"}), object)
    return str(members_of(home).get("__module__")).partition(".")[0] in _STRUCTURAL
