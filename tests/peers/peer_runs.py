"""The whole runtime on a model server: an application with one tool of ours, and what must hold after its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from stage import assert_endings, assert_valid

from kestrel_nb import Kestrel, KestrelConfig, tool
from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.events import SessionEvent
from kestrel_nb.protocol.sessions import RunResult
from kestrel_nb.providers import AnthropicModel, GeminiModel, OllamaModel, OpenAIChatModel, OpenAIResponsesModel
from kestrel_nb.runtime.models import LanguageModel
from kestrel_nb.runtime.retry import RetryOptions

KEY = "dummy-key-of-a-test-0123456789"
RETRY = RetryOptions(attempts=3, base_delay_ms=120, max_delay_ms=2_000)

# wire -> the model's class, and where each of the servers has that wire
WIRES: dict[str, tuple[Callable[..., LanguageModel], dict[str, str]]] = {
    "openai-chat": (OpenAIChatModel, {"llmock": "/v1", "aimock": "/v1"}),
    "openai-responses": (OpenAIResponsesModel, {"llmock": "/v1", "aimock": "/v1"}),
    "anthropic": (AnthropicModel, {"llmock": "/anthropic", "aimock": ""}),
    "gemini": (GeminiModel, {"llmock": "/gemini", "aimock": ""}),
    "ollama": (OllamaModel, {"aimock": ""}),
    "openrouter": (OpenAIChatModel, {"aimock": "/api/v1"}),
}


def model_at(url: str, server: str, wire: str, **options: Any) -> LanguageModel:
    """A model of ``wire`` on the server at ``url``."""
    make, places = WIRES[wire]
    return make("mock-model", api_key=KEY, base_url=url + places[server], **options)


class PeerRun:
    """An application on ``model`` with the tool ``weather``; use as an async context manager.

    ``ran`` holds the cities that the tool was asked about; ``on_call`` is called while it works.
    """

    def __init__(
        self,
        model: LanguageModel,
        folder: Path,
        *,
        on_call: Callable[[str], Any] | None = None,
        retry: RetryOptions = RETRY,
        max_tokens: int | None = None,
    ) -> None:
        self.ran: list[str] = []
        self.events: list[SessionEvent] = []

        @tool(read_only=True, parallel_safe=True)
        def weather(city: str) -> str:
            """The weather in a city.

            Args:
                city: its name
            """
            self.ran.append(city)
            if on_call is not None:
                on_call(city)
            return f"sunny in {city}, 21 °C"

        config = KestrelConfig(plugins=(), retry=retry, max_tokens=max_tokens)
        self.app = Kestrel(model=model, workspace=folder, tools=[weather], config=config)
        self.app.sessions.subscribe(self.events.append)
        self.session = self.app.sessions.create()

    async def __aenter__(self) -> PeerRun:
        await self.app.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.app.aclose()
        if error is None:
            self.check()

    async def ask(self, text: str = "What is the weather?") -> RunResult:
        async with asyncio.timeout(60):
            return await self.session.start(text)

    async def fails(self, text: str = "What is the weather?") -> ModelRequestError:
        """The error that the run ends with."""
        try:
            result = await self.ask(text)
        except ModelRequestError as error:
            return error
        raise AssertionError(f"the run did not fail: {result}")

    async def until(self, type: str) -> None:
        """Return once an event of ``type`` came."""
        heard = asyncio.Event()
        dispose = self.app.sessions.subscribe(lambda event: heard.set() if event.type == type else None)
        async with asyncio.timeout(60):
            await heard.wait()
        dispose()

    def of(self, type: str) -> list[Any]:
        return [event for event in self.events if event.type == type]

    def retries(self) -> int:
        """How often a request was tried again."""
        return sum(event.code == "retry" for event in self.of("notice"))

    def streamed(self) -> str:
        """The text as it arrived."""
        return "".join(event.text for event in self.of("message.delta"))

    def results(self) -> Sequence[str]:
        return [part.content for message in self.session.messages for part in message.tool_results]

    def check(self) -> None:
        """What holds for every run, however it ended."""
        assert_valid(self.session.messages)
        assert_endings([event for event in self.events if not self._removed(event)], self.session.messages)
        assert KEY not in repr(self.events)
        assert KEY not in repr(self.session.detail())

    def _removed(self, event: SessionEvent) -> bool:
        """Whether ``event`` is about a call that a rewind took away."""
        call_id = getattr(event, "call_id", None)
        kept = {call.id for message in self.session.messages for call in message.tool_calls}
        return call_id is not None and call_id not in kept
