"""Text on its way into a cassette and back: without keys, and with names in the place of this machine's folders.

A cassette that was made on one machine is played on another. So the workspace, the home, the temporary folder and the
one of the stored sessions are written as ``⟦workspace⟧``, ``⟦home⟧``, ``⟦temp⟧`` and ``⟦store⟧``, and read as what
these are where it is played. Keys become ``***`` and stay that.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..runtime.secrets import MASK, Masker
from ..runtime.store_place import store_folder
from ..sandbox.headers import is_secret_header

WINDOW: Final = 4096  # characters around a cut: longer than any key or path

_TOKEN = re.compile(r"⟦(?P<name>workspace|store|temp|home|⟦)(?P<json>:json)?⟧")
_FOLDER = re.compile(r"⟦(?:workspace|store|temp|home)(?::json)?⟧")
_CREDENTIALS = re.compile(
    r"(?P<head>\b(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest|apikey)\s+)?"
    r"|\b(?:set-)?cookie[\"']?\s*[:=]\s*[\"']?|\bx-(?:api-key|goog-api-key|auth-token)[\"']?\s*[:=]\s*[\"']?"
    r"|\bbearer\s+)(?P<value>(?!(?:bearer|basic|token|digest|apikey)\s)[^\s\"',;]{6,})"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|nvapi)[-_][A-Za-z0-9][\w-]{15,}|\bAIza[\w-]{20,}",
    re.IGNORECASE,
)


class Places:
    """The folders of this machine by their names in a cassette, and both ways between the two."""

    def __init__(self, workspace: str) -> None:
        folders = {
            "workspace": workspace,
            "store": store_folder(),
            "temp": tempfile.gettempdir(),
            "home": os.path.expanduser("~"),
        }
        self._folders = {name: folder.rstrip("/\\") for name, folder in folders.items() if _is_telling(folder)}
        plain: dict[str, str] = {}
        quoted: dict[str, str] = {}
        for name, folder in self._folders.items():
            for form in dict.fromkeys((folder, os.path.realpath(folder))):
                plain.setdefault(form, name)
                quoted.setdefault(_quoted(form), name)
        absent = [name for name in folders if name not in self._folders]
        self._quoted = _pattern(quoted, absent), quoted
        both = {**{form: f"{name}:json" for form, name in quoted.items()}, **plain}
        self._plain = _pattern(both, absent), both

    def hide(self, text: str, *, quoted: bool = False) -> str:
        """``text`` with names for the folders. ``quoted``: it is JSON, in which a path is escaped."""
        pattern, names = self._quoted if quoted else self._plain
        return pattern.sub(lambda found: f"⟦{names.get(found[0], '⟦')}⟧", text)

    def show(self, text: str, *, quoted: bool = False) -> str:
        """``text`` with the folders of this machine for their names."""
        if "⟦" not in text:
            return text

        def folder(found: re.Match[str]) -> str:
            path = "⟦" if found["name"] == "⟦" else self._folders.get(found["name"])
            if path is None:
                return found[0]
            return _quoted(path) if quoted or found["json"] else path

        return _TOKEN.sub(folder, text)

    def show_json(self, value: Any) -> Any:
        """``show`` for every string of JSON data."""
        return _each(value, self.show)


def _is_telling(folder: str) -> bool:
    """False for no folder, and for the root of everything, which is part of any path."""
    return len(folder.rstrip("/\\")) > 1 and os.path.dirname(folder) != folder


def _quoted(path: str) -> str:
    return json.dumps(path, ensure_ascii=False)[1:-1]


def anywhere(text: str) -> str:
    """``text`` with one name for all folders: two of them may be one and the same on another machine."""
    return _FOLDER.sub("⟦folder⟧", text)


def _pattern(names: Mapping[str, str], absent: Sequence[str]) -> re.Pattern[str]:
    """Finds ``names`` and the brackets of names; those of folders that are ``absent`` here were read and left alone."""
    forms = "|".join(re.escape(form) for form in sorted(names, key=len, reverse=True))
    bracket = rf"⟦(?!(?:{'|'.join(absent)})(?::json)?⟧)" if absent else "⟦"
    return re.compile(rf"(?<!\w)(?:{forms})(?![\w-])|{bracket}" if forms else bracket)


def without_credentials(text: str) -> str:
    """``text`` of a tool without what stands behind Authorization and the like or is spelt like a key."""
    return _CREDENTIALS.sub(lambda found: (found["head"] or "") + MASK, text)


def data_without_credentials(value: Any) -> Any:
    """JSON data of a tool, cleaned in the same way; fields that are named like such a header are hidden whole."""
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(item, str) and is_secret_header(str(key)) else data_without_credentials(item)
            for key, item in value.items()
        }
    return _each(value, without_credentials, data_without_credentials)


def clean(text: str, places: Places, masker: Masker, *, quoted: bool = False) -> str:
    """``text`` as it stands in a cassette."""
    return places.hide(masker.mask(text), quoted=quoted)


def clean_json(value: Any, places: Places, masker: Masker) -> Any:
    """JSON data as it stands in a cassette."""
    return _each(masker.mask_json(value), places.hide)


def _each(value: Any, change: Callable[[str], str], inner: Callable[[Any], Any] | None = None) -> Any:
    """JSON data with every string changed; ``inner`` takes what is inside, by default this."""
    again = inner or (lambda item: _each(item, change))
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key) if isinstance(key, str) else key: again(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [again(item) for item in value]
    return value


def recut(pieces: Sequence[str], change: Callable[[str], str]) -> Iterator[str]:
    """``change`` of the joined text, in the same pieces; pieces that hold a part of what changes are joined.

    Yields "" for a piece that went into the next one.
    """
    whole = "".join(pieces)
    if change(whole) == whole:
        yield from pieces
        return
    start = end = 0
    for piece in pieces:
        end += len(piece)
        before, after = whole[max(0, end - WINDOW) : end], whole[end : end + WINDOW]
        if after and change(before) + change(after) != change(before + after):
            yield ""
            continue
        yield change(whole[start:end])
        start = end


# ---- numbers that JSON does not have ------------------------------------------------------------------------------

_NUMBER, _LITERAL = "$number", "$literal"


def strict(value: Any) -> Any:
    """Data that may hold NaN and infinities as strict JSON."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {_NUMBER: repr(value)}
    if isinstance(value, Mapping):
        plain = {key: strict(item) for key, item in value.items()}
        return {_LITERAL: plain} if _NUMBER in plain or _LITERAL in plain else plain
    return [strict(item) for item in value] if isinstance(value, (list, tuple)) else value


def loose(value: Any) -> Any:
    """What ``strict`` was given."""
    if isinstance(value, Mapping):
        if set(value) == {_NUMBER}:
            return float(value[_NUMBER])
        inner = value[_LITERAL] if set(value) == {_LITERAL} else value
        return {key: loose(item) for key, item in inner.items()}
    return [loose(item) for item in value] if isinstance(value, list) else value
