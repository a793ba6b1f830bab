"""``%kestrel models``: the models that are there and how to get more, or what one provider offers."""

from __future__ import annotations

from typing import Any

from ..frames import to_frame, whole_texts
from ..protocol.errors import UsageError
from ..protocol.sessions import ModelInfo
from ..providers.cassette_wish import CASSETTE_VARIABLE, wish
from ..providers.known import LOCAL
from .state import NotebookState

FACTS = ("tools", "images", "reasoning")
THERE = {
    **dict.fromkeys(("model", "label", "provider"), "str"),
    "current": "bool",
    "tools": "boolean",
    "context_window": "Int64",
    "use": "str",
}
LISTED = {"id": "str", "label": "str", "context_window": "Int64", **dict.fromkeys(FACTS, "boolean")}


async def models(state: NotebookState, words: list[str]) -> Any:
    """The registered models, the current one and the providers that can be used; or what ``words[0]`` lists.

    What nobody knows is missing in the table. Raises KestrelError for a provider that is none, or does not answer.
    """
    await state.app.initialize()
    if words:
        if wish().mode == "replay" and words[0].rstrip(":") != LOCAL:
            raise UsageError(f"{CASSETTE_VARIABLE} says replay, so no server is asked for its models; unset it first")
        return _offered(await state.app.catalog.list(words[0]))
    current = state.model
    found = {info.id: info for info in state.app.models.list()}
    if current is not None and current not in found:
        found[current] = state.app.models.get(current).info
    rows = [_cells(info, info.id == current, f"%kestrel use {info.id}") for info in found.values()]
    for provider in await state.app.catalog.usable():
        how = f"%kestrel models {provider.name} lists them: {provider.why}"
        info = ModelInfo(id=f"{provider.name}:MODEL", provider=provider.name, label=provider.title)
        rows.append(_cells(info, False, how))
    return _frame(THERE, rows, "use")


def _cells(info: ModelInfo, current: bool, use: str) -> list[Any]:
    label = info.label or info.id
    return [info.id, label, info.provider, current, info.supports_tools, info.context_window, use]


def _offered(infos: list[ModelInfo]) -> Any:
    rows = [
        [
            info.id,
            info.label,
            info.context_window,
            info.supports_tools,
            info.supports_images,
            info.supports_reasoning,
        ]
        for info in infos
    ]
    return _frame(LISTED, rows, "id")


def _frame(columns: dict[str, str], rows: list[list[Any]], whole: str) -> Any:
    return whole_texts(to_frame({"columns": list(columns), "rows": rows, "dtypes": list(columns.values())}), whole)
