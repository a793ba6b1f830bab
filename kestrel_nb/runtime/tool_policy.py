"""Which tools an application has at all: a policy narrows what its plugins brought, whoever asks for a tool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from ..protocol.errors import UsageError

_PATTERN = re.compile(r"[a-zA-Z0-9_*?-]{1,64}")
_NEAR = 0.75  # how alike two names must be for one of them to be a slip of the pen


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """The tools that an application may use: those in ``allow`` (None: all), without those in ``deny``.

    Both hold names; ``*`` stands for any characters and ``?`` for one. ``deny`` wins. A tool that is ruled out is not
    offered to a model, and no call of it runs, whoever makes or approves it. It may be registered all the same, also
    later. Raises UsageError for anything but names.
    """

    allow: Sequence[str] | None = None
    deny: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.allow is not None:
            object.__setattr__(self, "allow", _names("allow", self.allow))
        object.__setattr__(self, "deny", _names("deny", self.deny))

    def refusal(self, name: str) -> str | None:
        """Why the tool ``name`` is ruled out, as the end of a sentence; None when it is not."""
        if self.deny and _matches(self.deny, name):
            return f'the tool policy of this application denies "{name}"'
        if self.allow is not None and not _matches(self.allow, name):
            return f'the tool policy of this application does not allow "{name}"'
        return None

    def slip(self, known: Iterable[str]) -> str | None:
        """What is wrong with a name that is no tool but nearly one; None when there is no such name.

        A name that is like no other may be that of a tool that comes later.
        """
        plain = {_plain(name): name for name in known}
        for name in (*(self.allow or ()), *self.deny):
            if "*" in name or "?" in name or name in plain.values():
                continue
            near = get_close_matches(_plain(name), plain, n=1, cutoff=_NEAR)
            if near:
                return (
                    f'tool_policy: there is no tool "{name}"; did you mean "{plain[near[0]]}"? '
                    f'(for a tool that comes later, write "{name}*")'
                )
        return None


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _names(what: str, given: object) -> tuple[str, ...]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise UsageError(f'ToolPolicy: {what} is a list of tool names, such as ["shell", "file-*"]')
    names = tuple(given)
    for name in names:
        if not isinstance(name, str) or not _PATTERN.fullmatch(name):
            raise UsageError(f'ToolPolicy: {what} holds {name!r}; a name has letters, digits, "_", "-", and * or ?')
    return names
