"""``%kestrel models``: the models that are there and how to get more, or what one provider offers."""

from __future__ import annotations

from typing import Any

from ..frames import to_frame, whole_texts
from ..protocol.sessions import ModelInfo
from .command import table
from .state import NotebookState

FACTS = ("tools", "images", "reasoning")
LISTED = {"id": "str", "label": "str", "context_window": "Int64", **dict.fromkeys(FACTS, "boolean")}


async def models(state: NotebookState, words: list[str]) -> Any:
    """The registered models, the current one and the providers that can be used; or what ``words[0]`` lists.

    What nobody knows is missing in the table. Raises KestrelError for a provider that is none, or does not answer.
    """
    await state.app.initialize()
    if words:
        return _offered(await state.app.catalog.list(words[0]))
    current = state.model
    found = {info.id: info for info in state.app.models.list()}
    if current is not None and current not in found:
        found[current] = state.app.models.get(current).info
    rows = [_row(info, info.id == current) for info in found.values()]
    for provider in await state.app.catalog.usable():
        how = f"%kestrel models {provider.name} lists them: {provider.why}"
        rows.append(_cells(f"{provider.name}:MODEL", provider.title, provider.name, use=how))
    return whole_texts(table(rows), "use")


def _row(info: ModelInfo, current: bool) -> dict[str, Any]:
    return _cells(
        info.id,
        info.label or info.id,
        info.provider,
        current=current,
        tools=info.supports_tools,
        context_window=info.context_window,
        use=f"%kestrel use {info.id}",
    )


def _cells(
    model: str,
    label: str,
    provider: str,
    *,
    current: bool = False,
    tools: bool | None = None,
    context_window: int | None = None,
    use: str,
) -> dict[str, Any]:
    return {
        "model": model,
        "label": label,
        "provider": provider,
        "current": current,
        "tools": tools,
        "context_window": context_window,
        "use": use,
    }


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
    return whole_texts(to_frame({"columns": list(LISTED), "rows": rows, "dtypes": list(LISTED.values())}), "id")
