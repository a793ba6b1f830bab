"""The recorded requests of a cassette, and which of them is nearest to another one.

A request is the one before it and a few messages more. So each keeps its own messages alone, and a conversation costs
its length and not the square of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..protocol.errors import CodecError
from .cassette_key import Asked, Said, link, shared_length

SHORT: Final = 12  # characters of a key where one entry names another
COMPARED: Final = 500  # characters at either end of two texts that tell how much they are alike
LOOKED_AT: Final = 100  # requests that end alike


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded:
    """One recorded request: the first ``kept`` messages of ``base``, then ``own``.

    ``links`` has an entry for each of ``own``: a digest of everything up to that message. ``told`` counts the kept
    messages of ``base`` that are no system prompt.
    """

    key: str
    model: str
    tools: Mapping[str, str]
    own: tuple[Said, ...]
    base: Recorded | None = None
    kept: int = 0
    told: int = 0
    links: tuple[bytes, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None

    @property
    def length(self) -> int:
        """How many messages it has."""
        return self.kept + len(self.own)

    @property
    def messages(self) -> tuple[Said, ...]:
        """All of them."""
        pieces: list[Sequence[Said]] = []
        node, end = self, self.length
        while node is not None and end > 0:
            pieces.append(node.own[: max(0, end - node.kept)])
            end = min(end, node.kept)
            node = node.base  # type: ignore[assignment]
        return tuple(message for piece in reversed(pieces) for message in piece)

    @property
    def talk(self) -> tuple[Said, ...]:
        """Its own messages but for system prompts."""
        return tuple(said for said in self.own if said.role != "system")

    @property
    def asked(self) -> Asked:
        """The same, written out."""
        return Asked(
            model=self.model,
            messages=self.messages,
            tools=self.tools,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            key=self.key,
        )

    def link(self, count: int) -> bytes:
        """The digest of the first ``count`` messages."""
        node: Recorded | None = self
        while node is not None and count <= node.kept:
            node = node.base
        return node.links[count - node.kept - 1] if node is not None and count > 0 else b""


class Requests:
    """The requests in the order of recording, by their keys and by what they begin with."""

    def __init__(self) -> None:
        self._all: dict[str, Recorded] = {}
        self._short: dict[str, Recorded] = {}
        self._begun: dict[bytes, str] = {}  # link -> the key of the first request that begins so

    def entry(self, asked: Asked) -> dict[str, Any]:
        """What is written of ``asked``: of its messages those that no earlier request has."""
        counts = range(len(asked.links), 0, -1)
        kept = next((count for count in counts if asked.links[count - 1] in self._begun), 0)
        entry: dict[str, Any] = {"key": asked.key, "model": asked.model}
        if asked.temperature is not None:
            entry["temperature"] = asked.temperature
        if asked.max_tokens is not None:
            entry["maxTokens"] = asked.max_tokens
        if kept:
            entry["after"] = [self._begun[asked.links[kept - 1]][:SHORT], kept]
        entry["messages"] = [one.row for one in asked.messages[kept:]]
        return entry

    def add(self, entry: Mapping[str, Any], tools: Mapping[str, str]) -> Recorded:
        """Take the request of a reply. Raises CodecError for one of a wrong form."""
        key = str(entry.get("key"))
        own = tuple(map(Said.of, _rows(entry.get("messages"))))
        base, kept = self._base(entry.get("after"))
        made = Recorded(
            key=key,
            model=str(entry.get("model")),
            tools=tools,
            own=own,
            base=base,
            kept=kept,
            told=_told(base, kept),
            links=tuple(_links(base.link(kept) if base else b"", own)),
            temperature=entry.get("temperature"),
            max_tokens=entry.get("maxTokens"),
        )
        for one in made.links:
            self._begun.setdefault(one, key)
        first = self._all.setdefault(key, made)
        self._short.setdefault(key[:SHORT], first)
        return first

    def _base(self, after: Any) -> tuple[Recorded | None, int]:
        if not isinstance(after, list) or len(after) != 2 or not isinstance(after[1], int):
            return None, 0
        base = self._short.get(str(after[0]))
        return base, min(max(after[1], 0), base.length) if base else 0

    def nearest(self, now: Asked, unplayed: frozenset[str]) -> Recorded | None:
        """The request that is nearest to ``now``, None when there is none.

        It has the longest common beginning, system prompts apart; then the same tools, the same model, a message that
        is much alike where they part, and was not played.
        """
        talk = [one for one in now.messages if one.role != "system"]
        common = self._common(talk)
        alike: dict[Recorded, int] = {}

        def nearness(one: Recorded) -> tuple[int, bool, bool, int, bool]:
            length, owner = common[one]
            if owner not in alike:
                alike[owner] = _alike(owner, length, talk)
            return length, one.tools == now.tools, one.model == now.model, alike[owner], one.key in unplayed

        furthest = max((length for length, _ in common.values()), default=0)
        return max((one for one in self._all.values() if common[one][0] == furthest), key=nearness, default=None)

    def _common(self, talk: list[Said]) -> dict[Recorded, tuple[int, Recorded]]:
        """How far each request goes together with ``talk``, and which one has the message that follows there."""
        common: dict[Recorded, tuple[int, Recorded]] = {}
        for one in self._all.values():
            common[one] = _common(one, talk, common)
        return common

    def was_not_answered(self, now: Asked) -> bool:
        """Whether ``now`` was asked, and then something else: no reply to it was recorded."""
        talk = [one for one in now.messages if one.role != "system"]
        if not talk or talk[-1].role != "user":
            return False
        ends = {owner for length, owner in self._common(talk).values() if length == len(talk)}
        return any(
            len(told := owner.talk) > len(talk) - owner.told and told[len(talk) - owner.told].role == "user"
            for owner in ends
        )

    def ending_alike(self, now: Asked) -> int:
        """How many messages ``now`` has more than a recorded request that ends with the same ones, system prompts
        apart; negative when the recorded one has more. 0 when none to the same model with the same tools ends so.
        """
        talk = [one.digest for one in now.messages if one.role != "system"]
        ends = [one for one in self._all.values() if talk and one.own and one.own[-1].digest == talk[-1]]
        ends = [one for one in ends if one.model == now.model and one.tools == now.tools]
        for one in ends[:LOOKED_AT]:
            told = [said.digest for said in one.messages if said.role != "system"]
            shorter = min(len(told), len(talk))
            if len(told) != len(talk) and told[-shorter:] == talk[-shorter:]:
                return len(talk) - len(told)
        return 0


def _rows(rows: Any) -> Sequence[Any]:
    if rows is None or isinstance(rows, list):
        return rows or ()
    raise CodecError("messages: must be lists of role, digest and text")


def _told(base: Recorded | None, kept: int) -> int:
    """How many of the first ``kept`` messages of ``base`` are no system prompt."""
    if base is None:
        return 0
    if kept == base.length:
        return base.told + sum(one.role != "system" for one in base.own)
    return sum(one.role != "system" for one in base.messages[:kept])


def _links(before: bytes, messages: Sequence[Said]) -> Iterator[bytes]:
    for one in messages:
        before = link(before, one)
        yield before


def _common(one: Recorded, talk: list[Said], known: Mapping[Recorded, tuple[int, Recorded]]) -> tuple[int, Recorded]:
    length, owner = known[one.base] if one.base is not None else (0, one)
    if length < one.told:
        return length, owner
    length = one.told
    for said in one.own:
        if said.role == "system":
            continue
        if length >= len(talk) or said.digest != talk[length].digest:
            break
        length += 1
    return length, one


def _alike(owner: Recorded, length: int, talk: list[Said]) -> int:
    """From 0 to 4: how much of the message in which they part is the same."""
    told, place = owner.talk, length - owner.told
    if place >= len(told) or length >= len(talk):
        return 0
    one, other = told[place].text, talk[length].text
    head = shared_length(one[:COMPARED], other[:COMPARED])
    tail = shared_length(one[: -COMPARED - 1 : -1], other[: -COMPARED - 1 : -1])
    longest = max(len(one), len(other))
    return min(4, 4 * (head + tail) // min(longest, 2 * COMPARED)) if longest else 4
