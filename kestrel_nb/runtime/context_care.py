"""Room in a model's context window: old tool results are sent shortened once a request would no longer fit.

Only what is sent changes; the stored transcript keeps every result whole. The sizes are estimates, from the letters
alone, so the server has the last word: a request that is still too large is sent as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from ..protocol.messages import ChatMessage, ImagePart, OpaquePart, Part, ToolCallPart, ToolResultPart
from ..protocol.tools import ToolSchema
from .models import CompletionRequest
from .prompts import estimate_tokens
from .truncation import head_of

KEPT_CHARS: Final = 400  # of an old result; enough to tell what it was
OLD_LIMITS: Final = (KEPT_CHARS, 0)  # nothing of it is left only when the heads alone fill the window
REPLY_TOKENS: Final = 4096  # room for the reply where nobody limits it, but at most a quarter of the window
IMAGE_TOKENS: Final = 1600  # of any size: what a large picture comes to once a provider has scaled it down
PART_TOKENS: Final = 8  # the role, ids and punctuation around a part
WORTH_TOKENS: Final = 64  # a cut that saves less is not made
FILLED: Final = 0.75  # of the room, after a cut: the beginning of the requests then stays the same for some steps

ContextNotice = tuple[Literal["info", "warning"], str]


class ContextCare:
    """What one session has shortened. Each step costs what its new messages cost, however long the transcript.

    A message that was shortened once is the same object in every later request. What is shortened follows from the
    messages alone, so a session that another process goes on with sends what the first one sent.
    """

    def __init__(self) -> None:
        self._tools: tuple[ToolSchema, ...] = ()
        self._tool_tokens = 0
        self._begin(None)

    def _begin(self, window: int | None) -> None:
        self._window = window
        self._whole: list[ChatMessage] = []  # as in the transcript
        self._sent: list[ChatMessage] = []
        self._sizes: list[int] = []  # of what is sent, in tokens
        self._total = 0
        self._newest = 0  # where the results of the newest step begin
        self._next = dict.fromkeys(OLD_LIMITS, 0)  # the oldest message not yet shortened to so many characters
        self._any = self._too_large = False

    def fit(self, request: CompletionRequest, window: int | None) -> tuple[CompletionRequest, Sequence[ContextNotice]]:
        """``request`` as it is to be sent to a model with ``window`` tokens, and what a person should hear of it.

        With an unknown window (None) nothing is changed.
        """
        if not window:
            return request, ()
        first = 1 if request.messages and request.messages[0].role == "system" else 0
        if window != self._window or not self._continues(request.messages, first):
            self._begin(window)
        room = window - (request.max_tokens or min(REPLY_TOKENS, window // 4)) - self._base(request, first)
        read_only = frozenset(tool.name for tool in request.tools if tool.read_only)
        for message in request.messages[first + len(self._whole) :]:
            if message.role == "assistant":  # a request was made for this message
                self._make_room(room, read_only)
            self._add(message)
        notices = self._notices(window, room, *self._make_room(room, read_only))
        if not self._any:
            return request, notices
        return replace(request, messages=(*request.messages[:first], *self._sent)), notices

    def _continues(self, messages: Sequence[ChatMessage], first: int) -> bool:
        """Whether ``messages`` go on where the last request ended: after a rewind they do not."""
        last = first + len(self._whole) - 1
        return not self._whole or (last < len(messages) and messages[last] is self._whole[-1])

    def _base(self, request: CompletionRequest, first: int) -> int:
        """The tokens of the system prompt and the tools."""
        if [*map(id, request.tools)] != [*map(id, self._tools)]:
            self._tools = request.tools
            self._tool_tokens = sum(_tool_tokens(tool) for tool in request.tools)
        return self._tool_tokens + sum(message_tokens(message) for message in request.messages[:first])

    def _add(self, message: ChatMessage) -> None:
        size = message_tokens(message)
        self._whole.append(message)
        self._sent.append(message)
        self._sizes.append(size)
        self._total += size
        if message.tool_calls:
            self._newest = len(self._whole)

    def _make_room(self, room: int, read_only: frozenset[str]) -> tuple[int, int]:
        """Shorten until the messages fit in ``room`` tokens; returns how many were shortened and the tokens saved."""
        before, goal = self._total, int(room * FILLED)
        if before <= room:
            return 0, 0
        cut: set[int] = set()
        for limit in OLD_LIMITS:
            if self._total > room:
                cut |= self._shorten_old(limit, goal, read_only)
        newest = range(self._newest, len(self._whole))
        if self._total > room:  # nothing else helps
            share = self._share(newest, goal)
            cut |= self._shorten(newest, lambda text: max(KEPT_CHARS, _chars(text, share)), read_only, images=True)
        if self._total > room:
            cut |= self._shorten(newest, lambda _: KEPT_CHARS, read_only, images=False)
        return len(cut), before - self._total

    def _shorten_old(self, limit: int, goal: int, read_only: frozenset[str]) -> set[int]:
        """Shorten the results of all steps but the newest to ``limit`` characters, oldest first, until ``goal``."""
        cut: set[int] = set()
        while self._total > goal and self._next[limit] < self._newest:
            cut |= self._shorten([self._next[limit]], lambda _: limit, read_only, images=False)
            self._next[limit] += 1
        return cut

    def _share(self, newest: range, goal: int) -> int:
        """How many tokens each result of the newest step may have, all alike, so that everything meets ``goal``."""
        sizes = sorted(estimate_tokens(part.content) for index in newest for part in self._sent[index].tool_results)
        left = sum(sizes) - (self._total - goal)
        for index, size in enumerate(sizes):
            share = left // (len(sizes) - index)
            if size > share:
                return share - WORTH_TOKENS  # the line that says so needs room too
            left -= size
        return 0

    def _shorten(
        self, indices: Iterable[int], limit: Callable[[str], int], read_only: frozenset[str], *, images: bool
    ) -> set[int]:
        """Send the results of these messages with as many characters of each as ``limit`` says of it, at most.

        Where that saves next to nothing they stay. Returns which were shortened.
        """
        cut: set[int] = set()
        for index in indices:
            whole = self._whole[index]
            if whole.role != "tool":
                continue
            shorter = replace(whole, parts=tuple(_shortened(part, limit, read_only, images) for part in whole.parts))
            size = message_tokens(shorter)
            if self._sizes[index] - size >= WORTH_TOKENS:
                self._total += size - self._sizes[index]
                self._sent[index], self._sizes[index] = shorter, size
                self._any = True
                cut.add(index)
        return cut

    def _notices(self, window: int, room: int, count: int, saved: int) -> list[ContextNotice]:
        notices: list[ContextNotice] = []
        if count:
            results = "1 tool result is" if count == 1 else f"{count} tool results are"
            text = (
                f"{results} sent shortened from now on, about {saved:,} tokens less, so that the request fits the "
                f"model's context window of {window:,} tokens. The conversation keeps everything."
            )
            notices.append(("info", text))
        too_large = self._total > room
        if too_large and not self._too_large:
            text = (
                f"The conversation may be too long for the model's context window of {window:,} tokens, and no tool "
                "result is left to shorten. Take back a part of it with %kestrel rewind, or begin a new session."
            )
            notices.append(("warning", text))
        self._too_large = too_large
        return notices


def message_tokens(message: ChatMessage) -> int:
    """An estimate of what ``message`` costs, with its calls, images and the opaque data that goes back."""
    return sum(_part_tokens(part) for part in message.parts) + _json_tokens(message.extra)


def _part_tokens(part: Part) -> int:
    tokens = PART_TOKENS + _json_tokens(part.extra)
    if isinstance(part, ImagePart):
        return tokens + IMAGE_TOKENS
    if isinstance(part, ToolCallPart):
        return tokens + estimate_tokens(part.name) + estimate_tokens(part.raw_arguments)
    if isinstance(part, ToolResultPart):
        return tokens + estimate_tokens(part.content) + IMAGE_TOKENS * len(part.images)
    if isinstance(part, OpaquePart):
        image = isinstance(part.value, Mapping) and "inlineData" in part.value  # as Gemini draws them
        return tokens + (IMAGE_TOKENS if image else _json_tokens(part.value))
    return tokens + estimate_tokens(part.text)


def _tool_tokens(tool: ToolSchema) -> int:
    return PART_TOKENS + estimate_tokens(tool.name + tool.description) + _json_tokens(tool.parameters)


def _json_tokens(value: Any) -> int:
    if value is None or (isinstance(value, Mapping) and not value):
        return 0
    return estimate_tokens(json.dumps(value, ensure_ascii=False, default=str))


def _chars(text: str, tokens: int) -> int:
    """About how many characters from the beginning of ``text`` come to ``tokens``."""
    chars = len(text)
    for _ in range(2):  # its beginning may be in another script than most of it
        chars = min(chars, chars * max(tokens, 0) // max(estimate_tokens(text[:chars]), 1))
    return chars


def _shortened(part: Part, limit: Callable[[str], int], read_only: frozenset[str], images: bool) -> Part:
    """A result with its head and a line that says what is missing; a short one, and any other part, as it is."""
    if not isinstance(part, ToolResultPart):
        return part
    head = head_of(part.content, limit(part.content))
    missing: list[str] = []
    if not head and part.content:
        missing.append(f"all {len(part.content):,} characters are left out")
    elif head != part.content:
        missing.append(f"the first {len(head):,} of {len(part.content):,} characters are kept")
    if part.images and not images:
        missing.append("1 image is left out" if len(part.images) == 1 else f"{len(part.images)} images are left out")
    if not missing:
        return part
    again = (
        f"call {part.name} again, more narrowly, to read the rest"
        if part.name in read_only
        else "the call has taken effect, don't repeat it only to read the rest"
    )
    note = f"[shortened to make room: {', '.join(missing)}; {again}]"
    kept = part.images if images else ()
    return replace(part, content=f"{head}\n{note}" if head else note, images=kept)
