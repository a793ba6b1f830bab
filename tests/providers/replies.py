"""Recorded replies of model servers, and what a parser makes of one that comes in given pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import ToolCallPart
from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.providers.wire import Wire
from kestrel_nb.runtime.models import CompletionResponse

FOLDER = Path(__file__).parents[1] / "data/wire"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (FOLDER / "expected.jsonl").read_text("utf-8").splitlines()]
WIRES = {
    "openai-chat": ("openai_chat", "OpenAIChatWire"),
    "openai-responses": ("openai_responses", "OpenAIResponsesWire"),
    "anthropic": ("anthropic", "AnthropicWire"),
    "gemini": ("gemini", "GeminiWire"),
    "ollama": ("ollama", "OllamaWire"),
}
STAMP = "{api}@127.0.0.1"


@cache
def wire_of(api: str) -> Wire:
    """The wire format ``api`` for some model on some server."""
    module, name = WIRES[api]
    made: Wire = getattr(import_module(f"kestrel_nb.providers.{module}"), name)(
        "some-model", stamp=STAMP.format(api=api)
    )
    return made


@dataclass
class Recorded:
    """One recorded answer: its row of ``expected.jsonl``, headers and body."""

    row: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def wire(self) -> Wire:
        return wire_of(self.row["provider"])

    @property
    def whole(self) -> bool:
        """True for a reply that was not streamed."""
        return bool(self.row["kind"].endswith("nonstream"))


@cache
def recorded(file: str) -> Recorded:
    """The answer in ``file``; a .http file holds its own headers."""
    row = next(row for row in ROWS if row["file"] == file)
    body = (FOLDER / file).read_bytes()
    head = b""
    if file.endswith(".http"):
        head, _, body = body.replace(b"\r\n", b"\n").partition(b"\n\n")
    elif (path := (FOLDER / file).with_suffix(".headers")).exists():
        head = path.read_bytes()
    lines = head.decode("latin-1").splitlines()[1:]
    headers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value}
    return Recorded(row, headers, body)


@dataclass
class Played:
    """What came out: the reply or the error, and what was shown on the way."""

    response: CompletionResponse | None = None
    error: ModelRequestError | None = None
    text: str = ""
    reasoning: str = ""
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)  # id -> name, argument text, as streamed

    def outcome(self) -> Any:
        """All of it in a form that can be compared; ids that the parser made are left out."""
        response = self.response
        calls = [(call.name, call.arguments, call.raw_arguments, call.problem) for call in self.tool_calls]
        said = (response.content, response.reasoning, response.finish_reason, response.usage) if response else ()
        error = self.error and (self.error.code, str(self.error), self.error.retryable, self.error.status)
        return said, calls, error, self.text, self.reasoning, list(self.calls.values())

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        return self.response.tool_calls if self.response else ()

    @property
    def usage(self) -> Usage:
        return self.response.usage if self.response else Usage()


def play(wire: Wire, pieces: Iterable[bytes]) -> Played:
    """What a parser of ``wire`` makes of ``pieces``; after its end it is fed no more, as on a connection."""
    parser = wire.parser()
    played = Played()
    try:
        for piece in pieces:
            for delta in parser.feed(piece):
                played.text += delta.text
                played.reasoning += delta.reasoning
                if delta.call_id:
                    name, arguments = played.calls.get(delta.call_id, ("", ""))
                    played.calls[delta.call_id] = (delta.tool or name, arguments + delta.arguments)
                assert delta.text or delta.reasoning or delta.tool or delta.arguments, "an empty delta"
            if parser.done:
                break
        played.response = parser.end()
    except ModelRequestError as error:
        played.error = error
    return played
