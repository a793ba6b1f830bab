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
from urllib.parse import quote

from ..runtime.secrets import MASK, Masker
from ..runtime.store_place import store_folder
from ..sandbox.headers import is_secret_header

WINDOW: Final = 4096  # characters around a cut: longer than any key or path

# How a path is written inside other text: as JSON, as JSON of ASCII alone, in a URL, and with the slashes that Windows
# takes as well.
_FORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "json": lambda path: json.dumps(path, ensure_ascii=False)[1:-1],
    "ascii": lambda path: json.dumps(path)[1:-1],
    "url": quote,
    "slash": lambda path: path.replace("\\", "/"),
}
_FORM = f"(?::(?:{'|'.join(_FORMS)}))?"
_TOKEN = re.compile(rf"⟦(?P<name>workspace|store|temp|home|⟦)(?::(?P<form>{'|'.join(_FORMS)}))?⟧")
_FOLDER = re.compile(rf"⟦(?:workspace|store|temp|home){_FORM}⟧")
_CREDENTIALS = re.compile(
    r"(?P<head>\b(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest|apikey)\s+)?"
    r"|\b(?:set-)?cookie[\"']?\s*[:=]\s*[\"']?|\bx-(?:api-key|goog-api-key|auth-token)[\"']?\s*[:=]\s*[\"']?"
    r"|\bbearer\s+)(?P<value>(?!(?:bearer|basic|token|digest|apikey)\s)[^\s\"',;]{6,})"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|nvapi)[-_][A-Za-z0-9][\w-]{15,}|\bAIza[\w-]{20,}",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(?<=://)([^\s/@:\"'<>]*:)[^\s/?#@\"'<>]+(?=@)")
_HINTS: Final = (
    *("authorization", "cookie", "x-api-key", "x-goog-api-key", "x-auth-token", "bearer", "aiza"),
    *(f"{start}{mark}" for start in ("sk", "pk", "rk", "xai", "hf", "ghp", "nvapi") for mark in "-_"),
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
        formed: dict[str, str] = {}
        for name, folder in self._folders.items():
            for path in dict.fromkeys((folder, os.path.realpath(folder))):
                plain.setdefault(path, name)
                quoted.setdefault(_quoted(path), name)
                for form, write in _FORMS.items():
                    formed.setdefault(write(path), f"{name}:{form}")
        absent = [name for name in folders if name not in self._folders]
        self._bracket = re.compile(rf"⟦(?!(?:{'|'.join(absent)}){_FORM}⟧)" if absent else "⟦")
        self._quoted, self._plain = _rows({**formed, **quoted}), _rows({**formed, **plain})

    def hide(self, text: str, *, quoted: bool = False) -> str:
        """``text`` with names for the folders. ``quoted``: it is JSON, in which a path is escaped."""
        if "⟦" in text:  # those of folders that are absent here were read and left alone
            text = self._bracket.sub("⟦⟦⟧", text)
        for form, pattern, name in self._quoted if quoted else self._plain:
            if form in text:
                text = pattern.sub(name, text)
        return text

    def show(self, text: str, *, quoted: bool = False) -> str:
        """``text`` with the folders of this machine for their names."""
        if "⟦" not in text:
            return text

        def folder(found: re.Match[str]) -> str:
            path = "⟦" if found["name"] == "⟦" else self._folders.get(found["name"])
            if path is None:
                return found[0]
            if found["form"]:
                return _FORMS[found["form"]](path)
            return _quoted(path) if quoted else path

        return _TOKEN.sub(folder, text)

    def show_json(self, value: Any) -> Any:
        """``show`` for every string of JSON data."""
        return _each(value, self.show)


def _is_telling(folder: str) -> bool:
    """False for no folder, and for the root of everything, which is part of any path."""
    return len(folder.rstrip("/\\")) > 1 and os.path.dirname(folder) != folder


def _quoted(path: str) -> str:
    return _FORMS["json"](path)


def anywhere(text: str) -> str:
    """``text`` with one name for all folders: two of them may be one and the same on another machine."""
    return _FOLDER.sub("⟦folder⟧", text)


def _rows(names: Mapping[str, str]) -> list[tuple[str, re.Pattern[str], str]]:
    """Each folder, how it is found as a whole, and what stands for it; the longest first, since it may lie in another.

    The patterns begin with what they look for: so large texts are searched many times faster.
    """
    rows = []
    for form in sorted(names, key=len, reverse=True):
        whole = re.escape(form)
        rows.append((form, re.compile(rf"{whole}(?<!\w{whole})(?![\w-])"), f"⟦{names[form]}⟧"))
    return rows


def without_credentials(text: str) -> str:
    """``text`` of a tool without what stands behind Authorization and the like or is spelt like a key."""
    if "://" in text:
        text = _URL_PASSWORD.sub(rf"\1{MASK}", text)
    lowered = text.lower()  # plain searches are many times faster than the pattern, and nearly always find nothing
    if not any(hint in lowered for hint in _HINTS):
        return text
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
    start = end = looked_at = 0
    calm = True  # nothing changes near the cuts up to ``looked_at``
    for piece in pieces:
        end += len(piece)
        if end >= looked_at:
            around = whole[max(0, end - WINDOW) : end + 2 * WINDOW]
            calm, looked_at = change(around) == around, end + WINDOW
        if not calm and _hurts(whole[max(0, end - WINDOW) : end], whole[end : end + WINDOW], change):
            yield ""
            continue
        yield change(whole[start:end])
        start = end


def _hurts(before: str, after: str, change: Callable[[str], str]) -> bool:
    """Whether something that changes would be cut in two."""
    return bool(after) and change(before) + change(after) != change(before + after)


# ---- numbers that JSON does not have ------------------------------------------------------------------------------

_NUMBER, _LITERAL = "$number", "$literal"
_NUMBERS: Final = ("nan", "inf", "-inf")
_LARGEST: Final = 1e15  # milliseconds, dollars and the like: what is larger was spoilt by hand


def plain_number(value: Any) -> float | None:
    """``value`` if it is a number of ordinary size, else None."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST
    return value if known else None


def strict(value: Any) -> Any:
    """Data that may hold NaN and infinities as strict JSON."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {_NUMBER: repr(value)}
    if isinstance(value, Mapping):
        plain = {key: strict(item) for key, item in value.items()}
        return {_LITERAL: plain} if _NUMBER in plain or _LITERAL in plain else plain
    return [strict(item) for item in value] if isinstance(value, (list, tuple)) else value


def loose(value: Any) -> Any:
    """What ``strict`` was given; what it can't have made stays as it is."""
    if isinstance(value, Mapping):
        if set(value) == {_NUMBER} and value[_NUMBER] in _NUMBERS:
            return float(value[_NUMBER])
        inner = value[_LITERAL] if set(value) == {_LITERAL} and isinstance(value[_LITERAL], Mapping) else value
        return {key: loose(item) for key, item in inner.items()}
    return [loose(item) for item in value] if isinstance(value, list) else value
