"""Keys from the environment, and how to keep them out of everything that is shown, stored or sent to a model.

The values of variables whose names look like keys are secrets, and so are the keys of models that were given in code or
by a keyring (``keep_secret``). ``mask`` replaces them by ``***``, whole, also where they stand URL-encoded,
JSON-escaped, in hex or in base64. Only exact values can be found: a part of a key, or one that a program has encrypted
or spelt backwards, passes.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

MASK: Final = "***"
OF_A_HOST: Final = "KESTREL_API_KEY_"  # begins the variable that holds the key for one host
MIN_CHARS: Final = 8  # of the environment: anything shorter occurs by chance
MIN_GIVEN: Final = 4  # of secrets that a caller names

_NAMES = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL|OAUTH|AUTHORIZATION|BEARER|JWT|PASS(?:_|$)"
    r"|(?:^|_)(?:AUTH|PWD|PAT|COOKIE|DSN|SALT)(?:_|$)",
    re.IGNORECASE,
)
# Names that hold such a word but point to something that is no secret: sockets, programs, files, layouts.
_HARMLESS = re.compile(
    r"(?:^|_)(?:SOCK|SOCKET|PATH|FILE|DIR|PROGRAM|PROMPT|KEYBOARD|KEYMAP|TYPE|NAME|HOST|PORT|REGION|TTL|TIMEOUT|MODE"
    r"|URL|URI|ENDPOINT|ISSUER)$|^(?:SSH_ASKPASS|XAUTHORITY|TOKENIZERS_PARALLELISM|PWD|OLDPWD)$",
    re.IGNORECASE,
)
_COMMON = ("HOME", "USER", "LOGNAME", "HOSTNAME", "PWD", "LANG", "SHELL", "PATH", "TMPDIR")
_WORDS = frozenset(("disabled", "required", "optional", "password", "username", "anonymous", "production", "readonly"))
_PATH = re.compile(r"(?:~|\.{0,2})/[\w.@~ /:-]*|[A-Za-z]:\\[^\n]*")
_NUMBER = re.compile(r"[\d.,:+-]{1,11}")  # a longer one may be a numeric key
_URL_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/@\s]*?:([^/\s]+)@", re.IGNORECASE)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+(\S+)", re.IGNORECASE)
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=_-]{20,}")


def known_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values in ``environ`` that look like keys, longest first.

    A value counts when its variable's name says key, token, secret, password or the like, it has at least 8
    characters, and it isn't something that ordinary text is full of: a common word, a short number, a path. The
    password inside a URL counts under any name; of a value in several lines each line of key text counts too.
    """
    found: set[str] = set()
    for name, value in environ.items():
        if match := _URL_PASSWORD.match(value.strip()):
            found.update((match[1], unquote(match[1])))
        if looks_like_key(name):
            found.update(_values(value.strip()))
    common = {environ.get(name) for name in _COMMON}
    return tuple(sorted((v for v in found if v not in common and _is_secret(v)), key=_longest_first))


def looks_like_key(name: str) -> bool:
    """True for the name of a variable, a field or a column that says key, token, secret, password or the like."""
    if name.startswith(OF_A_HOST):  # whatever the host is called: there are hosts below .name
        return True
    return _NAMES.search(name) is not None and _HARMLESS.search(name) is None


def _longest_first(text: str) -> tuple[int, str]:
    return -len(text), text


def _values(value: str) -> Iterator[str]:
    yield value
    if match := _SCHEME.fullmatch(value):
        yield match[1]
    if "\n" in value:
        yield from (line.strip() for line in value.splitlines() if _KEY_LINE.fullmatch(line.strip()))


def _is_secret(value: str) -> bool:
    if len(value) < MIN_CHARS or len(set(value)) < 4 or value.lower() in _WORDS or _NUMBER.fullmatch(value):
        return False
    return _PATH.fullmatch(value) is None or _looks_random(value)


def _looks_random(value: str) -> bool:
    """True for a key that merely begins like a path, as base64 may."""
    kinds = (str.isupper, str.islower, str.isdigit)
    return len(value) >= 30 and value.count("/") <= 2 and "." not in value and all(any(map(k, value)) for k in kinds)


class Masker:
    """The secrets of one moment, ready to be looked for."""

    __slots__ = ("_heads", "_longest", "_needles", "_needles_in_json", "_pattern", "secrets")

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = tuple(sorted({secret for secret in secrets if len(secret) >= MIN_GIVEN}, key=_longest_first))
        forms = sorted({form for secret in self.secrets for form in _forms(secret)}, key=_longest_first)
        coded = [form for secret in self.secrets for form in _base64_forms(secret)]
        self._needles = (*forms, *(needle for needles, _ in coded for needle in needles))
        self._needles_in_json = tuple({json.dumps(needle)[1:-1] for needle in self._needles})
        self._heads: dict[str, list[str]] = {}
        for needle in self._needles:
            self._heads.setdefault(needle[:1], []).append(needle)
        self._longest = max(map(len, self._needles), default=0)
        self._pattern = re.compile("|".join([*map(re.escape, forms), *(pattern for _, pattern in coded)]))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Masker:
        """The masker for ``environ``; by default the process's, with what ``keep_secret`` was told.

        That one is made anew only when something has changed.
        """
        global _latest
        if environ is not None:
            return Masker(known_secrets(environ))
        # Undecoded: this is asked for each result of a tool, and decoding every variable takes longer than masking.
        now = dict(getattr(os.environ, "_data", os.environ)), frozenset(_given)
        latest = _latest
        if latest is None or latest[0] != now:
            _latest = latest = now, Masker((*known_secrets(os.environ), *now[1]))
        return latest[1]

    def mask(self, text: str) -> str:
        """``text`` with every secret as ``***``."""
        # Plain searches are many times faster than one pattern, and nearly always find nothing.
        if not any(needle in text for needle in self._needles):
            return text
        return self._pattern.sub(MASK, text)

    def may_be_in(self, json_text: str) -> bool:
        """False when no string in ``json_text``, JSON in ASCII, holds a secret: then there is nothing to mask in it."""
        return any(needle in json_text for needle in self._needles_in_json)

    def now(self) -> Masker:
        """The secrets of this moment."""
        return self

    def begun_in(self, text: str) -> int:
        """How many characters at the end of ``text`` may be the beginning of a secret, 0 for none."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            for needle in self._heads.get(text[start], ()):
                if needle.startswith(text[start:]):
                    return len(text) - start
        return 0

    def mask_json(self, value: Any) -> Any:
        """Free JSON with every string masked, keys too; the same object when there is nothing to hide."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, int) and str(value) in self.secrets:
            return MASK
        if isinstance(value, Mapping):
            return self._mask_mapping(value)
        if isinstance(value, (list, tuple)):
            items = [self.mask_json(item) for item in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            return value if same else tuple(items) if isinstance(value, tuple) else items
        return value

    def _mask_mapping(self, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
        masked: dict[Any, Any] = {}
        same = True
        for key, item in value.items():
            new_key, new_item = self.mask_json(key) if isinstance(key, str) else key, self.mask_json(item)
            same = same and new_key is key and new_item is item
            masked[free_key(new_key, masked)] = new_item
        return value if same else masked


class LiveMasker(Masker):
    """The masker for the process as it is at each call: a key may be set while an application is there."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())

    def now(self) -> Masker:
        """The secrets of this moment."""
        return Masker.from_environment()

    def may_be_in(self, json_text: str) -> bool:
        """False when no string in ``json_text`` holds a secret of this moment."""
        return Masker.from_environment().may_be_in(json_text)

    def mask(self, text: str) -> str:
        """``text`` with every secret of this moment as ``***``."""
        return Masker.from_environment().mask(text)

    def mask_json(self, value: Any) -> Any:
        """Free JSON with every secret of this moment masked."""
        return Masker.from_environment().mask_json(value)


_given: set[str] = set()
_latest: tuple[tuple[dict[Any, Any], frozenset[str]], Masker] | None = None


def keep_secret(value: str) -> None:
    """Mask ``value`` from now on as if it stood in the environment: a key that came from elsewhere.

    A placeholder for a server that wants none, such as "EMPTY", is no secret: it would be masked in ordinary text.
    """
    _given.update(filter(_is_secret, _values(value.strip())))


def free_key(key: Any, taken: Mapping[Any, Any]) -> Any:
    """``key``, or with a number behind it when two keys have become alike."""
    candidate, number = key, 2
    while candidate in taken:
        candidate, number = f"{key} ({number})", number + 1
    return candidate


def _forms(secret: str) -> set[str]:
    """The ways in which text may carry ``secret`` whole: as it is, and quoted for JSON, Python, HTML or a URL."""
    hexed, in_json = secret.encode("utf-8", "surrogatepass").hex(), _json_forms(secret)
    forms = {hexed, hexed.upper(), secret, *in_json, in_json[0].replace("/", "\\/")}
    # JSON inside JSON: the code of a call that holds such a text.
    forms |= {json.dumps(form, ensure_ascii=plain)[1:-1] for form in in_json for plain in (True, False)}
    forms |= {repr(secret)[1:-1], html.escape(secret), html.escape(secret, quote=False)}
    try:
        encoded = {quote(secret, safe=""), quote(secret), quote_plus(secret)}
    except UnicodeEncodeError:  # bytes of the environment that are no text
        return forms
    return forms | encoded | {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in encoded}


def _json_forms(secret: str) -> tuple[str, str]:
    return json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]


def _base64_forms(secret: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """What to look for, and the pattern to replace, of ``secret`` in base64, at each offset inside other data.

    The characters at both ends also depend on the neighbours, so any may stand there.
    """
    data = secret.encode("utf-8", "surrogatepass")
    for offset, lead in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(bytes(offset) + data).decode().rstrip("=")
        tail = 1 if (offset + len(data)) % 3 else 0
        core = text[lead : len(text) - tail]
        if len(core) >= MIN_CHARS:
            url_safe = core.translate(_URL_SAFE)
            body = f"(?:{_wrapped(core)}|{_wrapped(url_safe)})"
            pattern = f"{_ANY * bool(lead)}{body}{_ANY * bool(tail)}={{0,2}}"
            yield tuple(start for form in (core, url_safe) for start in _starts(form)), pattern


def _wrapped(core: str) -> str:
    """The pattern for base64, in lines of any length where it is long enough for more than one."""
    return re.escape(core) if len(core) < _LINE else _BREAK.join(map(re.escape, core))


def _starts(core: str) -> tuple[str, ...]:
    """What to look for: of long base64 two pieces, since a line may end in one of them."""
    return (core,) if len(core) < _LINE else (core[:20], core[20:40])


_LINE = 60  # characters: the shortest line that programs break base64 into is 64
_BREAK = r"(?:\s|\\+[nr])*"
_URL_SAFE = str.maketrans("+/", "-_")
_ANY = "[A-Za-z0-9+/_-]?"


def mask(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every one of ``secrets`` as ``***``, the longest first."""
    return Masker(secrets).mask(text)


def mask_json(value: Any, secrets: Iterable[str]) -> Any:
    """Free JSON with every one of ``secrets`` masked in its strings and keys."""
    return Masker(secrets).mask_json(value)
