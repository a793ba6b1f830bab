"""One step of a reference: an attribute, a column or an item of a user's value."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any

from .disclosure import type_name
from .disclosure_kinds import is_a, kind_of, name_text, read


class Unresolved(Exception):
    """The reference stays as typed; the text says why, "" when there is nothing to tell."""


def attribute_of(value: Any, name: str) -> Any:
    """An attribute, a column of a frame first. Raises Unresolved."""
    if name.startswith("_"):
        raise Unresolved("a name that begins with _ is private")
    if kind_of(value) == "frame" and read(lambda: name in value.columns, False):
        return _got(lambda: value[name], "")
    near = _near(value, name) if kind_of(value) else ""
    return _got(lambda: getattr(value, name), f"{type_name(value)} has no {name}{near}")


def item_of(value: Any, key: Any) -> Any:
    """What ``value`` holds under ``key``; containers are asked as their built-in type would be. Raises Unresolved."""
    missing = f"there is no [{key!r}] in it{_near(value, key)}"
    for base in (dict, list, tuple, str):
        if is_a(value, base):
            if base is dict and not read(lambda: dict.__contains__(value, key), False):
                raise Unresolved(missing)  # a dict that makes what it lacks would be changed by asking
            return _got(partial(base.__getitem__, value, key), missing)
    if kind_of(value) == "frame" and not read(lambda: key in value.columns, False):
        raise Unresolved(missing)
    if kind_of(value) == "series" and is_a(key, int) and not read(lambda: key in value.index, False):
        return _got(lambda: value.iloc[key], missing)
    return _got(lambda: value[key], missing)


def _got(work: Callable[[], Any], missing: str) -> Any:
    """What ``work`` gives. Raises Unresolved: ``missing`` for what isn't there, else the type of what it raised."""
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except (AttributeError, LookupError, TypeError):
        raise Unresolved(missing) from None
    except BaseException as error:
        raise Unresolved(f"reading it raised {type_name(error)}") from None


def _near(value: Any, name: Any) -> str:
    """``; did you mean "price"?`` when a column or a key is called nearly so."""
    names: list[Any] = []
    if is_a(value, dict):
        names = list(itertools.islice(dict.keys(value), 1_000))
    elif kind_of(value) == "frame":
        names = read(lambda: list(value.columns[:1_000]), [])
    known = [str.__str__(key) for key in names if is_a(key, str)]
    near = get_close_matches(name, known, n=1) if is_a(name, str) else []
    return f'; did you mean "{name_text(near[0])}"?' if near else ""
