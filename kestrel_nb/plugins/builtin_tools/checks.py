"""What a setting of the built-in tools may be. Each check gives the value as it is kept, or raises UsageError."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence

from ...protocol.errors import UsageError
from ...protocol.suggest import suggestion

MAX_MS = 24 * 60 * 60 * 1000  # a day: what is longer is a slip, and timers end somewhere
MAX_BYTES = 1_000_000_000  # a response is held in memory


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False, not {value!r}")
    return value


def whole(name: str, value: object, most: int, unit: str = "") -> int:
    """A whole number from 1 to ``most``, of ``unit``."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        number = f"a whole number of {unit}" if unit else "a whole number"
        raise UsageError(f"{name} must be {number} from 1 to {most:,}, not {value!r}")
    return value


def ids(name: str, value: object, known: Collection[str]) -> tuple[str, ...]:
    """Names of built-in tools."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise UsageError(f'{name} must be a list of tool names, such as ["date-time"], not {value!r}')
    given = tuple(value)
    for item in given:
        if not isinstance(item, str) or item not in known:
            raise UsageError(f"{name}: {_no_tool(item, known)}")
    return given


def _no_tool(item: object, known: Collection[str]) -> str:
    plain = item.strip().casefold().replace("_", "-") if isinstance(item, str) else ""
    hint = suggestion(plain, known, f"there are: {', '.join(known)}; others need no enabling")
    if item is ...:
        hint = 'put the names that you have there, such as [*DEFAULT_BUILT_IN_TOOLS, "file-read"]'
    return f"{'...' if item is ... else repr(item)} is no built-in tool; {hint}"


def place(name: str, value: object, *, folder: bool) -> str | None:
    """A path, made absolute now: later the process may work elsewhere. It need not exist yet."""
    if value is None:
        return None
    try:
        text = os.fspath(value)  # type: ignore[call-overload]
    except TypeError:
        text = None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise UsageError(f"{name} must be a path, not {value!r}")
    path = os.path.abspath(os.path.expanduser(text))
    if folder and os.path.exists(path) and not os.path.isdir(path):
        raise UsageError(f'{name}: "{path}" is not a folder')
    if not folder and os.path.isdir(path):
        raise UsageError(f'{name}: "{path}" is a folder, not a database file')
    return path


def environment(name: str, value: object) -> dict[str, str]:
    """Environment variables: text by name."""
    if not isinstance(value, Mapping):
        raise UsageError(f'{name} must be a dict of variables, such as {{"LANG": "C.UTF-8"}}')
    for key, text in value.items():
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise UsageError(f"{name}: {key!r} can't be the name of an environment variable")
        if not isinstance(text, str) or "\0" in text:
            raise UsageError(f"{name}: the value of {key} must be text")  # the value may be a secret
    return dict(value)


def keys(where: str, given: object, known: Sequence[str]) -> Mapping[str, object]:
    """A section of the configuration, whose keys are all known."""
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} must be a section with the keys {', '.join(known)}")
    for key in given:
        if key not in known:
            hint = suggestion(str(key), known, f"known are {', '.join(known)}", shape="{}", cutoff=0.5)
            raise UsageError(f"{where}: {key} is no setting; {hint}")
    return given
