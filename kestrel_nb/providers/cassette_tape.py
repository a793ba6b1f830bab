"""The entries of a cassette in memory: found by their keys, each played once, in the order of recording."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..protocol.codec import decode
from ..protocol.errors import CodecError
from ..protocol.sessions import ModelInfo
from .cassette_difference import difference, not_answered, other_beginning
from .cassette_key import Asked, digest
from .cassette_requests import SHORT, Requests

EXCERPT = 60
ASKED = ("reply", "failure")  # how a request can have ended


@dataclass(slots=True)
class Item:
    """One entry, and whether it was played. ``info`` is what was known of a reply's model when it was recorded."""

    entry: Mapping[str, Any]
    played: bool = False
    info: ModelInfo | None = None

    @property
    def failed(self) -> bool:
        """True for a request that failed."""
        return self.entry["kind"] == "failure" or self.entry.get("finishReason") == "error"


class Tape:
    """Entries as they come from a file or are added; kinds that are not known here are passed over."""

    def __init__(self, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self.models: dict[str, ModelInfo] = {}
        self.tools: dict[str, Mapping[str, str]] = {}
        self._items: list[Item] = []
        self._queues: dict[tuple[Any, ...], deque[Item]] = defaultdict(deque)  # what was played is taken away in front
        self._recorded: dict[str, int] = defaultdict(int)  # key -> how many replies
        self._replies: dict[str, deque[Item]] = defaultdict(deque)  # by model
        self._requests = Requests()
        self._left: set[str] = set()
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
            self.tools[str(entry.get("id"))] = _digests(entry.get("tools"))
        elif kind in (*ASKED, "answer", "result"):
            if not isinstance(entry.get("key"), str):
                raise CodecError("key: must be a text")
            item, queue = Item(entry, played), self._queues[_place(entry)]
            if kind in ASKED:
                self._remember(item, _give_up(queue, entry.get("instead")))
            elif left := entry.get("left"):
                self._left.add(str(left))
            queue.append(item)
            self._items.append(item)

    def _remember(self, item: Item, given_up: int) -> None:
        model = str(item.entry.get("model"))
        item.info = self.models.get(model)
        self._requests.add(item.entry, self.tools.get(str(item.entry.get("tools")), {}))
        self._recorded[str(item.entry.get("key"))] += 1 - given_up
        self._replies[model].append(item)

    # ---- playing ----------------------------------------------------------------------------------------------

    def failures_left(self, key: str) -> int:
        """How many failures of the request ``key`` were not played, where no reply follows them; else 0."""
        left = [item.failed for item in self._queues.get(("reply", key, ""), ()) if not item.played]
        return len(left) if all(left) else 0

    def next(self, kind: str, key: str, origin: str = "") -> Item | None:
        """The next entry that was not played; first of the call that came from ``origin``, then of one from nowhere."""
        for place in dict.fromkeys(((kind, key, origin), (kind, key, ""))):
            if (item := _first_left(self._queues.get(place))) is not None:
                return item
        return None

    def info(self, model: str) -> ModelInfo | None:
        """What was known of ``model`` when its next reply was recorded; None for one that is not recorded."""
        item = _first_left(self._replies.get(model))
        return item.info if item is not None and item.info is not None else self.models.get(model)

    @property
    def left(self) -> frozenset[str]:
        """What the calls have left behind, by the names that their tools gave it."""
        return frozenset(self._left)

    @property
    def unused(self) -> tuple[str, ...]:
        """The entries that were not played, a line each."""
        return tuple(_about(item.entry) for item in self._items if not item.played)

    # ---- requests ---------------------------------------------------------------------------------------------

    def request_entry(self, asked: Asked) -> dict[str, Any]:
        """What is written of a request."""
        return {**self._requests.entry(asked), "tools": tools_id(asked.tools)}

    def why_not(self, now: Asked) -> str:
        """Why no reply is left for ``now``: the first difference from the nearest recorded request, in words."""
        if known := self._recorded.get(now.key, 0):
            times = "once" if known == 1 else f"{known} times"
            again = "%kestrel replay PATH plays it from the beginning again"
            return f"this request was recorded {times} and was played as often; {again}"
        if self._requests.was_not_answered(now):
            return not_answered(now)
        if more := self._requests.ending_alike(now):
            return other_beginning(more)
        replies = (item.entry for item in self._items if item.entry["kind"] in ASKED and not item.played)
        nearest = self._requests.nearest(now, frozenset(str(entry["key"]) for entry in replies))
        if nearest is None:
            return "no request is recorded in it"
        return difference(nearest.asked, now) or "the order of the calls that its results belong to"


def tools_id(tools: Mapping[str, str]) -> str:
    """A short name for what is offered."""
    return digest(dict(tools))[:SHORT]


def _digests(value: Any) -> Mapping[str, str]:
    """Names of tools and their digests. Raises CodecError for something else."""
    if not isinstance(value, Mapping):
        raise CodecError("tools: must be an object")
    return {name: str(told) for name, told in value.items()}


def _first_left(queue: deque[Item] | None) -> Item | None:
    while queue and queue[0].played:
        queue.popleft()
    return queue[0] if queue else None


def _give_up(queue: deque[Item], count: Any) -> int:
    """Let the last ``count`` failures not be played: the request was made again later. Returns how many these are."""
    last = list(islice(reversed(queue), count)) if isinstance(count, int) and 0 < count <= len(queue) else []
    given_up = [item for item in last if item.failed]
    for item in given_up:
        item.played = True
    return len(given_up)


def _place(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    kind = "reply" if entry["kind"] in ASKED else entry["kind"]
    return kind, str(entry.get("key")), str(entry.get("origin") or "")


def _about(entry: Mapping[str, Any]) -> str:
    """An entry in a line, for a person."""
    if entry["kind"] in ASKED:
        rows = entry.get("messages") or [["", "", ""]]
        return f'{entry["kind"]} of {entry.get("model")} to "{_excerpt(str(rows[-1][2]))}"'
    verb = "answer to" if entry["kind"] == "answer" else "result of"
    return f"{verb} {entry.get('tool')} {_excerpt(str(entry.get('arguments')))}"


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1] + "…"
