"""Models: the contract that a provider fulfils, and the registry of those that are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ..protocol.errors import DuplicateNameError, KestrelError, ModelNotFoundError, UsageError
from ..protocol.messages import ChatMessage, Part, ReasoningPart, TextPart, ToolCallPart
from ..protocol.sessions import ModelInfo, Usage
from ..protocol.suggest import suggestion
from ..protocol.tools import ToolSchema
from .signals import CancelSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDelta:
    """A piece of a reply as it streams: text, reasoning, or more of one call's argument text."""

    text: str = ""
    reasoning: str = ""
    call_id: str = ""
    tool: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """What a model is asked. ``messages`` begins with the system message, if any; ``tools`` is sorted by name."""

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSchema, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    signal: CancelSignal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionResponse:
    """What a model answered. ``parts`` is authoritative; left empty, it is built from the flat fields.

    ``finish_reason`` is "stop", "tool_calls", "length", "content_filter", "error" or the provider's own word; after
    "pause_turn" a run asks again, so that the model goes on.
    ``recorded``: it is played, and ``cost`` is what it had cost in US dollars, None where that was not known.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallPart, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"
    parts: tuple[Part, ...] = ()
    provider: str | None = None
    recorded: bool = False
    cost: float | None = None

    def __post_init__(self) -> None:
        if not self.parts:
            parts: list[Part] = []
            if self.reasoning:
                parts.append(ReasoningPart(text=self.reasoning))
            if self.content:
                parts.append(TextPart(text=self.content))
            object.__setattr__(self, "parts", (*parts, *self.tool_calls))
            return
        texts = "".join(part.text for part in self.parts if isinstance(part, TextPart))
        thoughts = "".join(part.text for part in self.parts if isinstance(part, ReasoningPart))
        object.__setattr__(self, "content", texts)
        object.__setattr__(self, "reasoning", thoughts)
        object.__setattr__(self, "tool_calls", tuple(p for p in self.parts if isinstance(p, ToolCallPart)))


DeltaListener = Callable[[TokenDelta], None]


class LanguageModel(Protocol):
    """One model. ``generate`` streams through ``on_delta`` and returns the whole; failures are ModelRequestError."""

    @property
    def info(self) -> ModelInfo: ...

    async def generate(
        self, request: CompletionRequest, on_delta: DeltaListener | None = None
    ) -> CompletionResponse: ...


ModelResolver = Callable[[str], LanguageModel | None]


class ModelRegistry:
    """The models by id. The first registered is the default unless one was chosen.

    A resolver gives the model of an id that nobody registered, or None; it may raise a KestrelError that says what is
    wrong with an id that is nearly one of its own. ``check`` is called with each model that a run is to ask, and may
    raise a KestrelError.
    """

    def __init__(
        self, *, default_model: str | None = None, check: Callable[[LanguageModel], None] | None = None
    ) -> None:
        self._check = check
        self._models: dict[str, LanguageModel] = {}
        self._resolvers: list[ModelResolver] = []
        self._chosen = default_model
        self._first: str | None = None

    def register(self, model: LanguageModel, *, set_default: bool = False, replace: bool = False) -> Callable[[], None]:
        """Add ``model``, with ``replace`` in the place of an earlier one of its id. Returns a disposer.

        Raises DuplicateNameError when its id is taken, UsageError for an object that is no model.
        """
        if not isinstance(getattr(model, "info", None), ModelInfo) or not callable(getattr(model, "generate", None)):
            raise UsageError(f"a model has info (a ModelInfo) and generate; {type(model).__name__} lacks one of them")
        name = model.info.id
        if name in self._models and not replace:
            raise DuplicateNameError(f'a model "{name}" is already registered; dispose of it first')
        self._models[name] = model
        if self._first is None:
            self._first = name
        if set_default:
            self._chosen = name

        def dispose() -> None:
            if self._models.get(name) is model:
                del self._models[name]
                if self._first == name:
                    self._first = next(iter(self._models), None)
                if self._chosen == name:
                    self._chosen = None

        return dispose

    def add_resolver(self, resolver: ModelResolver) -> Callable[[], None]:
        """Ask ``resolver`` for ids that nobody registered, such as ``provider:model``. Returns a disposer."""
        self._resolvers.append(resolver)
        return lambda: self._resolvers.remove(resolver) if resolver in self._resolvers else None

    def get(self, id: str | None = None) -> LanguageModel:
        """The model ``id``, or the default. Raises ModelNotFoundError that names what there is."""
        name = id or self.default_model
        if name is None:
            raise ModelNotFoundError("no model is registered; pass model=... or register one")
        if name in self._models:
            return self._models[name]
        complaint: KestrelError | None = None
        for resolver in self._resolvers:
            try:
                model = resolver(name)
            except KestrelError as error:
                complaint = complaint or error
                continue
            if model is not None:
                return model
        if complaint is not None:
            raise complaint
        there = f"there is: {', '.join(sorted(self._models)) or 'none'}"
        hint = suggestion(name, self._models, there, cutoff=0.5)
        raise ModelNotFoundError(f'no model "{name}"; {hint}')

    def to_ask(self, id: str | None = None) -> LanguageModel:
        """``get`` for a run. Raises what the ``check`` raises, too."""
        model = self.get(id)
        if self._check is not None:
            self._check(model)
        return model

    def has(self, id: str) -> bool:
        """True when ``id`` is registered or can be resolved."""
        if id in self._models:
            return True
        return any(_resolves(resolver, id) for resolver in self._resolvers)

    def set_default(self, id: str) -> None:
        """Choose the default; later registrations don't change it. Raises ModelNotFoundError."""
        self.get(id)
        self._chosen = id

    @property
    def default_model(self) -> str | None:
        """The id of the default model, or None when there is none."""
        return self._chosen or self._first

    def list(self) -> list[ModelInfo]:
        """Every registered model, sorted by id."""
        return [self._models[name].info for name in sorted(self._models)]

    @property
    def size(self) -> int:
        """How many models are registered."""
        return len(self._models)


def _resolves(resolver: ModelResolver, id: str) -> bool:
    try:
        return resolver(id) is not None
    except KestrelError:
        return False
