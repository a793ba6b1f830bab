"""Models on a server: a request is encoded, sent and parsed, and whatever fails becomes a ModelRequestError."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..protocol.codec import loads
from ..protocol.errors import CodecError, ModelRequestError, UsageError
from ..protocol.sessions import ModelInfo
from ..runtime.models import CompletionRequest, CompletionResponse, DeltaListener, TokenDelta
from ..runtime.retry import masked_words, model_http_error, request_id
from ..runtime.secrets import keep_secret, looks_like_key
from .address import Timeouts, checked_base_url
from .wire import TellingWire, Wire, WireParser, WireRequest

if TYPE_CHECKING:
    from .http import Answer, Server, Transport

ApiKey = str | Callable[[], str | None] | None
MAX_PAGES: Final = 50  # of a listing of models
DETAILS_S: Final = 8.0  # for details that need a request for each model, and how many go at once
AT_ONCE: Final = 8
JSON_LINES: Final = ("ollama",)  # formats whose streams begin with a brace
_COMMON: Final = {
    "content-type": "application/json",
    "accept": "*/*",
    "accept-encoding": "identity",
    "user-agent": "kestrel-nb",
}


class RemoteModel:
    """The model that its server calls ``model``, spoken to by ``wire``.

    ``name`` is what errors call the server. ``api_key`` is a key, or a function that is asked for one with each
    request. With ``stream=False`` a reply comes in one piece. ``transport`` takes the place of the network.

    Raises UsageError for a base URL or headers that can't be.
    """

    def __init__(
        self,
        model: str,
        *,
        wire: Wire,
        info: ModelInfo,
        base_url: str,
        name: str | None = None,
        api_key: ApiKey = None,
        headers: Mapping[str, str] | None = None,
        transport: Transport | None = None,
        timeouts: Timeouts | None = None,
        stream: bool = True,
    ) -> None:
        self._model = model
        self._wire = wire
        self._info = info
        self._base_url = checked_base_url(base_url)
        self._name = name or info.provider
        self._api_key = api_key
        self._own_headers = _checked(headers or {})
        self._own_secrets = tuple(
            value for name, value in self._own_headers.items() if looks_like_key(name.replace("-", "_"))
        )
        for secret in (*self._own_secrets, *((api_key,) if isinstance(api_key, str) else ())):
            keep_secret(secret)
        self._transport = transport
        self._timeouts = timeouts or Timeouts()
        self._stream = stream
        self._kept_server: Server | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"

    @property
    def info(self) -> ModelInfo:
        """What lists show."""
        return self._info

    def learn(self, found: ModelInfo) -> None:
        """Take what is known in ``found`` of this model: by a listing of its server, or another list."""
        names = ("label", "context_window", "supports_tools", "supports_reasoning", "supports_images")
        known = {name: value for name in names if (value := getattr(found, name)) is not None}
        self._info = replace(self._info, **known)

    @property
    def _server(self) -> Server:
        if self._kept_server is None:
            from .http import Server

            self._kept_server = Server(self._base_url, self._name, self._timeouts, self._transport)
        return self._kept_server

    # ---- a reply ----------------------------------------------------------------------------------------------

    async def generate(self, request: CompletionRequest, on_delta: DeltaListener | None = None) -> CompletionResponse:
        """Ask the model. Raises ModelRequestError, CancelledByUser once ``request.signal`` is cancelled."""
        if request.signal is not None:
            request.signal.raise_if_cancelled()
        sent = self._encoded(request)
        await self._prepare_key()
        headers, secrets = self._headers(sent.headers)
        exchange = self._server.exchange(
            "POST", sent.path, headers, sent.body, signal=request.signal, idle=self._stream, secrets=secrets
        )
        async with exchange as answer:
            try:
                if not 200 <= answer.status < 300:
                    raise await self._refusal(answer, sent.path, secrets)
                return await self._reply(answer, on_delta or _nobody)
            except ModelRequestError as error:
                raise _dressed(error, answer, secrets) from None

    def _encoded(self, request: CompletionRequest) -> WireRequest:
        try:
            return self._wire.encode(request, stream=self._stream)
        except (TypeError, ValueError, RecursionError) as error:  # a temperature of NaN, a tool's schema with a set
            raise UsageError(f"the request to {self._name} can't be written as JSON: {error}") from None

    async def _reply(self, answer: Answer, on_delta: DeltaListener) -> CompletionResponse:
        """Read the reply as what it is: some servers stream although not asked to, or don't although asked to."""
        start = b""
        async for data in answer:
            start += data
            if start.strip():
                break
        first = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if first == b"<":
            raise self._web_page(start + (await answer.words()).encode())
        if first in (b"{", b"[") and (self._wire.api not in JSON_LINES or not self._stream):
            response = self._wire.whole(start + await answer.whole())
            _tell(response, on_delta)
            return response
        return await self._streamed(self._wire.parser(), start, answer, on_delta)

    async def _streamed(
        self, parser: WireParser, start: bytes, answer: Answer, on_delta: DeltaListener
    ) -> CompletionResponse:
        for delta in parser.feed(start):
            on_delta(delta)
        broken = await self._rest(parser, answer, on_delta)
        try:
            response = parser.end()  # the reply may have been complete before the connection broke
        except ModelRequestError as error:
            raise (broken or error) from None
        if not answer.ended and not broken:
            await answer.settle()
        return response

    async def _rest(self, parser: WireParser, answer: Answer, on_delta: DeltaListener) -> ModelRequestError | None:
        """Read to the end; returns what broke the connection, if anything did."""
        while not parser.done:
            try:
                data = await anext(answer)
            except StopAsyncIteration:
                break
            except ModelRequestError as error:
                return error
            for delta in parser.feed(data):
                on_delta(delta)
        return None

    # ---- what else a server may say -----------------------------------------------------------------------------

    async def _refusal(self, answer: Answer, path: str, secrets: tuple[str, ...]) -> ModelRequestError:
        if 300 <= answer.status < 400:
            return self._redirect(answer, path)
        words = await answer.words()
        hint = self._wire.hint(answer.status, words) if isinstance(self._wire, TellingWire) else None
        refused = getattr(self._api_key, "refused", None)
        hint = hint or (refused() if refused and answer.status == 401 else None)
        return model_http_error(answer.status, words, answer.headers, self._name, secrets=secrets, hint=hint)

    def _redirect(self, answer: Answer, path: str) -> ModelRequestError:
        target = re.sub(r"[\s?#].*", "", answer.headers.get("location", ""), flags=re.DOTALL)
        to = f" to {target.removesuffix(path.partition('?')[0])}" if target else ""
        return ModelRequestError(
            f"{self._name} answered {answer.status}, a redirect{to}; none is followed, since the key would go along: "
            "set that as the base URL if it is right",
            status=answer.status,
        )

    def _web_page(self, page: bytes) -> ModelRequestError:
        error = model_http_error(200, page[:65_536].decode("utf-8", "replace"), None, self._name)
        return ModelRequestError(
            f"{error}; this is a web page and not a model's reply: check the base URL, and whether the network wants a "
            "login first",
            status=200,
            code="broken_reply",
        )

    # ---- headers and keys ---------------------------------------------------------------------------------------

    def _headers(self, more: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
        """What is sent, and what of it must not be told."""
        key = self._key()
        headers = {**_COMMON, **more, **(self._wire.key_headers(key) if key else {}), **self._own_headers}
        return headers, (*([key] if key else ()), *self._own_secrets)

    async def _prepare_key(self) -> None:
        """Let a source of keys that may have to wait do so here, and not in the event loop."""
        prepare = getattr(self._api_key, "prepare", None)
        if prepare is not None:
            await prepare()

    def _key(self) -> str | None:
        key = self._api_key() if callable(self._api_key) else self._api_key
        if key is None or not key.strip():
            return None
        if not re.fullmatch(r"[\x21-\x7e]+", key.strip()):
            raise ModelRequestError(
                f"the API key for {self._name} holds spaces or characters that no key has; copy it again",
                code="no_api_key",
            )
        keep_secret(key)
        return key.strip()

    # ---- the list of models -------------------------------------------------------------------------------------

    async def list_models(self) -> list[ModelInfo]:
        """The models that the server offers. Raises ModelRequestError."""
        found: list[ModelInfo] = []
        page: str | None = None
        for _ in range(MAX_PAGES):
            models, page = await self._page(page)
            found += models
            if page is None:
                break
        if isinstance(self._wire, TellingWire):
            found = await self._all_detailed(found, self._wire)
        prefix = self._info.id.removesuffix(self._model)
        return [replace(model, id=prefix + model.id, provider=self._info.provider) for model in found]

    async def _page(self, page: str | None) -> tuple[tuple[ModelInfo, ...], str | None]:
        told = await self._json("GET", WireRequest(path=self._wire.models_path(page), body=b""))
        if not isinstance(told, Mapping) or not any(
            value is None or isinstance(value, list) for value in told.values()
        ):
            raise self._no_list()
        return self._wire.models(told)

    def _no_list(self) -> ModelRequestError:
        return ModelRequestError(f"{self._name} did not answer with a list of models; check the base URL")

    async def _all_detailed(self, found: list[ModelInfo], wire: TellingWire) -> list[ModelInfo]:
        """``found`` with the details of as many as there is time for."""
        waiting, told = iter(enumerate(found)), list(found)

        async def work() -> None:
            for place, model in waiting:
                told[place] = await self._detailed(model, wire)

        with suppress(TimeoutError):
            async with asyncio.timeout(DETAILS_S), asyncio.TaskGroup() as workers:
                for _ in range(min(AT_ONCE, len(found))):
                    workers.create_task(work())
        return told

    async def _detailed(self, model: ModelInfo, wire: TellingWire) -> ModelInfo:
        """``model`` with what a second request tells; one that the server can't tell of stays as listed."""
        try:
            return wire.detailed(model, await self._json("POST", wire.details(model.id)))
        except ModelRequestError:
            return model

    async def _json(self, method: str, asked: WireRequest) -> Any:
        path = asked.path
        await self._prepare_key()
        headers, secrets = self._headers(asked.headers)
        async with self._server.exchange(method, path, headers, asked.body, secrets=secrets) as answer:
            try:
                if not 200 <= answer.status < 300:
                    raise await self._refusal(answer, path, secrets)
                return loads((await answer.whole()).decode("utf-8", "replace"))
            except CodecError:
                raise self._no_list() from None
            except ModelRequestError as error:
                raise _dressed(error, answer, secrets) from None


def _nobody(_: TokenDelta) -> None:
    """For replies that nobody watches."""


def _tell(response: CompletionResponse, on_delta: DeltaListener) -> None:
    """Tell of a reply that came in one piece as if it had streamed."""
    if response.reasoning:
        on_delta(TokenDelta(reasoning=response.reasoning))
    if response.content:
        on_delta(TokenDelta(text=response.content))
    for call in response.tool_calls:
        on_delta(TokenDelta(call_id=call.id, tool=call.name, arguments=call.raw_arguments))


def _dressed(error: ModelRequestError, answer: Answer, secrets: tuple[str, ...]) -> ModelRequestError:
    """``error`` with the request's id, and without a key that the server may have echoed inside a reply."""
    error.args = (masked_words(str(error), secrets),)
    error.request_id = error.request_id or request_id(answer.headers)
    return error


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Names in lower case. Raises UsageError for what can't be sent; the values are not repeated."""
    for name, value in headers.items():
        if not isinstance(value, str) or not re.fullmatch(r"[\x20-\x7e\t]*", value):
            raise UsageError(f'the header "{name}" must be text of ASCII characters in one line')
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            raise UsageError(f"{name!r} is no name of a header")
    return {name.lower(): value.strip() for name, value in headers.items()}
