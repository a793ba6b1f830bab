"""One model behind a cassette: it plays what is recorded, and records what it has to ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..protocol.sessions import ModelInfo
from ..runtime.models import CompletionRequest, CompletionResponse, DeltaListener, LanguageModel, TokenDelta
from .pacing import pause, stop

if TYPE_CHECKING:
    from .cassette import Cassette


class RecordedModel:
    """See the module. ``inner`` is None where only what is recorded is played."""

    def __init__(self, cassette: Cassette, info: ModelInfo, inner: LanguageModel | None, workspace: str) -> None:
        self._cassette, self._info, self._inner, self._workspace = cassette, info, inner, workspace

    @property
    def info(self) -> ModelInfo:
        """What lists show."""
        return self._info

    async def generate(self, request: CompletionRequest, on_delta: DeltaListener | None = None) -> CompletionResponse:
        """Play the recorded reply, or ask the model and record its reply once it is complete.

        Raises ModelRequestError (``cassette_miss``), and what the model raises.
        """
        stop(request.signal)
        cassette = self._cassette
        asked = cassette.asked(request, self._workspace)
        found = cassette.take_reply(asked, self._workspace)
        if found is not None:
            return await _play(*found, request, on_delta)
        if self._inner is None:
            raise cassette.miss(asked)
        deltas: list[TokenDelta] = []

        def hear(delta: TokenDelta) -> None:
            deltas.append(delta)
            if on_delta is not None:
                on_delta(delta)

        response = await self._inner.generate(request, hear)
        complete = isinstance(response, CompletionResponse) and response.finish_reason != "error"
        if complete and not (request.signal is not None and request.signal.cancelled):
            cassette.keep_reply(asked, self._inner.info, response, deltas, self._workspace)
        return response


async def _play(
    response: CompletionResponse, deltas: list[TokenDelta], request: CompletionRequest, on_delta: DeltaListener | None
) -> CompletionResponse:
    for delta in deltas if on_delta is not None else ():
        await pause(0, request.signal)
        on_delta(delta)  # type: ignore[misc]
    return response


def info_or_stand_in(id: str, find: Callable[[], LanguageModel]) -> ModelInfo:
    """What is known about a model that is not recorded, so that the miss can name what is."""
    try:
        return find().info
    except Exception:  # no extra, no key, no such model: nothing of that is needed here
        return ModelInfo(id=id, provider="cassette")
