"""The list of models as OpenAI's API gives it, with what compatible servers say beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..protocol.sessions import ModelInfo
from .event_parser import count_of, object_of, objects_of, str_of

_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")


def models_of(rows: Any, provider: str) -> tuple[ModelInfo, ...]:
    """The models in ``rows``, the ``data`` of a listing; rows that name none are left out."""
    return tuple(_models(rows, provider))


def _models(rows: Any, provider: str) -> Iterator[ModelInfo]:
    for row in objects_of(rows):
        name, able = str_of(row.get("id")), row.get("supported_parameters")
        if not name:
            continue
        yield ModelInfo(
            id=name,
            provider=provider,
            label=str_of(row.get("name")) or None,
            context_window=_window(row),
            supports_tools=_among("tools", able),
            supports_reasoning=_among("reasoning", able),
            supports_images=_among("image", object_of(row.get("architecture")).get("input_modalities")),
        )


def _window(row: Mapping[str, Any]) -> int | None:
    """Tokens: vLLM's, OpenRouter's, Groq's, Mistral's and LM Studio's name for it, then llama.cpp's."""
    meta = object_of(row.get("meta"))
    found = [*(row.get(name) for name in _WINDOWS), meta.get("n_ctx"), meta.get("n_ctx_train")]
    return next((count for value in found if (count := count_of(value))), None)


def _among(word: str, words: Any) -> bool | None:
    return word in words if isinstance(words, list) else None
