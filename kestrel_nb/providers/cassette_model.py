"""One model behind a cassette: it plays what is recorded, and records what it has to ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations, islice
from typing import TYPE_CHECKING

from ..protocol.errors import ModelRequestError
from ..protocol.sessions import ModelInfo
from ..runtime.interception import Schemas
from ..runtime.models import CompletionRequest, CompletionResponse, DeltaListener, LanguageModel, TokenDelta
from . import prices
from .cassette_answer import Answer
from .cassette_failure import is_failure, prepare
from .pacing import pause, stop

if TYPE_CHECKING:
    from .cassette import Cassette
    from .cassette_key import Asked

TRIES = 128  # sets of such tools: all of seven


class RecordedModel:
    """See the module. ``inner`` is None where only what is recorded is played."""

    def __init__(
        self,
        cassette: Cassette,
        info: ModelInfo,
        inner: LanguageModel | None,
        workspace: str,
        depends: Schemas = tuple,
    ) -> None:
        self._cassette, self._info, self._inner = cassette, info, inner
        self._workspace, self._depends = workspace, depends
        self._failed: tuple[str, Exception] | None = None  # the request that was played last, and how it failed

    @property
    def info(self) -> ModelInfo:
        """What lists show."""
        return self._info

    async def generate(self, request: CompletionRequest, on_delta: DeltaListener | None = None) -> CompletionResponse:
        """Play what is recorded, or ask the model and record how that ended, unless it was stopped.

        Raises ModelRequestError (``cassette_miss``), and what the model raises or is recorded to have raised.
        """
        stop(request.signal)
        cassette = self._cassette
        asked = cassette.asked(request, self._workspace)
        found = cassette.take(asked, self._workspace) or self._found_elsewhere(request)
        if found is not None:
            self._failed = (asked.key, found.outcome) if isinstance(found.outcome, Exception) else None
            return await _play(found, request, on_delta)
        if self._inner is None:
            raise self._given_up(asked) or cassette.miss(asked)
        cassette.check_records()
        return await self._recorded(self._inner, asked, request, on_delta)

    def _given_up(self, asked: Asked) -> Exception | None:
        """The failure that was the last one when it was recorded, where more tries are made here than there."""
        if self._failed is None or self._failed[0] != asked.key:
            return None
        if isinstance(error := self._failed[1], ModelRequestError):
            error.retryable = False
        return error

    async def _recorded(
        self, inner: LanguageModel, asked: Asked, request: CompletionRequest, on_delta: DeltaListener | None
    ) -> CompletionResponse:
        deltas: list[TokenDelta] = []

        def hear(delta: TokenDelta) -> None:
            deltas.append(delta)
            if on_delta is not None:
                on_delta(delta)

        try:
            response = await inner.generate(request, hear)
        except Exception as error:
            if is_failure(error) and not _stopped(request):
                prepare(error)
                self._cassette.keep(asked, inner.info, Answer(error, deltas), self._workspace)
            raise
        if isinstance(response, CompletionResponse) and not _stopped(request):
            priced = replace(response, cost=await self._cost(request.model, response))
            self._cassette.keep(asked, inner.info, Answer(priced, deltas), self._workspace)
        return response

    async def _cost(self, id: str, response: CompletionResponse) -> float | None:
        """What the reply cost; the list may have another price, or not be there, where it is played."""
        if ":" not in id:
            return None
        prices.load_ahead(id)
        await prices.ready()
        return prices.price_if_loaded(id, response.usage)

    def _found_elsewhere(self, request: CompletionRequest) -> Answer | None:
        """The reply to this request as a machine made it that had others of the tools which depend on what is there."""
        if not self._cassette.plays:
            return None
        depending = {schema.name: schema for schema in self._depends()}
        always = [schema for schema in request.tools if schema.name not in depending]
        choices = (combinations(depending.values(), count) for count in range(len(depending) + 1))
        for some in islice(chain.from_iterable(choices), TRIES):
            tools = tuple(sorted((*always, *some), key=lambda schema: schema.name))
            asked = self._cassette.asked(replace(request, tools=tools), self._workspace)
            if found := self._cassette.take(asked, self._workspace):
                return found
        return None


def _stopped(request: CompletionRequest) -> bool:
    return request.signal is not None and request.signal.cancelled


async def _play(answer: Answer, request: CompletionRequest, on_delta: DeltaListener | None) -> CompletionResponse:
    for delta in answer.deltas if on_delta is not None else ():
        await pause(0, request.signal)
        on_delta(delta)  # type: ignore[misc]
    if isinstance(answer.outcome, Exception):
        raise answer.outcome
    return answer.outcome


def info_or_stand_in(id: str, find: Callable[[], LanguageModel]) -> ModelInfo:
    """What is known about a model that is not recorded, so that the miss can name what is."""
    try:
        return find().info
    except Exception:  # no extra, no key, no such model: nothing of that is needed here
        return ModelInfo(id=id, provider="cassette")
