"""The entries of a cassette in memory: found by their keys, each played once, in the order of recording."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..protocol.codec import decode
from ..protocol.errors import CodecError
from ..protocol.sessions import ModelInfo
from .cassette_key import Asked, Said, difference, digest, nearness

SHORT = 12  # characters of a key where one entry names another
EXCERPT = 60


@dataclass(slots=True)
class Item:
    """One entry, and whether it was played."""

    entry: Mapping[str, Any]
    played: bool = False


class Tape:
    """Entries as they come from a file or are added; kinds that are not known here are passed over."""

    def __init__(self, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self.models: dict[str, ModelInfo] = {}
        self.tools: dict[str, Mapping[str, str]] = {}
        self._items: list[Item] = []
        self._queues: dict[tuple[Any, ...], list[Item]] = defaultdict(list)
        self._asked: dict[str, Asked] = {}
        self._short: dict[str, Asked] = {}
        self._prefixes: dict[tuple[str, ...], tuple[str, int]] = {}
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, entry: Mapping[str, Any], *, played: bool = False) -> None:
        """Take an entry; ``played``: it was made just now. Raises CodecError for one of a wrong form."""
        kind = entry.get("kind")
        if kind == "model":
            info = decode(ModelInfo, {key: value for key, value in entry.items() if key != "kind"})
            self.models[info.id] = info
        elif kind == "tools":
            self.tools[str(entry.get("id"))] = dict(entry.get("tools") or {})
        elif kind in ("reply", "answer", "result"):
            item = Item(entry, played)
            self._items.append(item)
            self._queues[_place(entry)].append(item)
            if kind == "reply":
                self._remember(entry)

    # ---- playing ----------------------------------------------------------------------------------------------

    def next(self, kind: str, key: str, origin: str = "") -> Item | None:
        """The next entry that was not played; first of the call that came from ``origin``, then of one from nowhere."""
        for place in dict.fromkeys(((kind, key, origin), (kind, key, ""))):
            for item in self._queues.get(place, ()):
                if not item.played:
                    return item
        return None

    @property
    def unused(self) -> tuple[str, ...]:
        """The entries that were not played, a line each."""
        return tuple(_about(item.entry) for item in self._items if not item.played)

    # ---- requests ---------------------------------------------------------------------------------------------

    def asked(self, entry: Mapping[str, Any]) -> Asked:
        """The request of a reply."""
        return self._asked[str(entry["key"])]

    def request_entry(self, asked: Asked) -> dict[str, Any]:
        """What is written of a request: of its messages those that no earlier request has."""
        digests = tuple(one.digest for one in asked.messages)
        after = None
        for length in range(len(digests), 0, -1):
            if digests[:length] in self._prefixes:
                after = self._prefixes[digests[:length]]
                break
        kept = after[1] if after else 0
        entry: dict[str, Any] = {"key": asked.key, "model": asked.model, "tools": tools_id(asked.tools)}
        if asked.temperature is not None:
            entry["temperature"] = asked.temperature
        if asked.max_tokens is not None:
            entry["maxTokens"] = asked.max_tokens
        if after:
            entry["after"] = [after[0][:SHORT], kept]
        entry["messages"] = [[one.role, one.digest, one.text] for one in asked.messages[kept:]]
        return entry

    def _remember(self, entry: Mapping[str, Any]) -> None:
        key, after = str(entry.get("key")), entry.get("after")
        messages: tuple[Said, ...] = ()
        if isinstance(after, list) and len(after) == 2:
            base = self._short.get(str(after[0]))
            messages = base.messages[: after[1]] if base and isinstance(after[1], int) else ()
        rows = entry.get("messages")
        try:
            messages += tuple(Said(str(role), str(digest), str(text)) for role, digest, text in rows or ())
        except (TypeError, ValueError):
            raise CodecError("messages: must be lists of role, digest and text") from None
        asked = Asked(
            model=str(entry.get("model")),
            messages=messages,
            tools=self.tools.get(str(entry.get("tools")), {}),
            temperature=entry.get("temperature"),
            max_tokens=entry.get("maxTokens"),
            key=key,
        )
        self._short[key[:SHORT]] = self._asked.setdefault(key, asked)
        digests = tuple(one.digest for one in messages)
        for length in range(len(digests), 0, -1):
            if digests[:length] in self._prefixes:
                break
            self._prefixes[digests[:length]] = (key, length)

    def why_not(self, now: Asked) -> str:
        """Why no reply is left for ``now``: the first difference from the nearest recorded request, in words."""
        known = len(self._queues.get(("reply", now.key, ""), ()))
        if known:
            times = "once" if known == 1 else f"{known} times"
            return f"this request was recorded {times} and was played as often"
        replies = [item for item in self._items if item.entry["kind"] == "reply"]
        if not replies:
            return "no request is recorded in it"
        nearest = max(replies, key=lambda item: (*nearness(self.asked(item.entry), now), not item.played))
        return difference(self.asked(nearest.entry), now) or "the order of the calls that its results belong to"


def tools_id(tools: Mapping[str, str]) -> str:
    """A short name for what is offered."""
    return digest(dict(tools))[:SHORT]


def _place(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return entry.get("kind"), str(entry.get("key")), str(entry.get("origin") or "")


def _about(entry: Mapping[str, Any]) -> str:
    """An entry in a line, for a person."""
    if entry["kind"] == "reply":
        rows = entry.get("messages") or [["", "", ""]]
        return f'reply of {entry.get("model")} to "{_excerpt(str(rows[-1][2]))}"'
    verb = "answer to" if entry["kind"] == "answer" else "result of"
    return f"{verb} {entry.get('tool')} {_excerpt(str(entry.get('arguments')))}"


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1] + "…"
