"""The registry of models, and what a response is."""

from __future__ import annotations

from typing import Any

import pytest
from stage import FunctionTool

from kestrel_nb.protocol.errors import DuplicateNameError, ModelNotFoundError
from kestrel_nb.runtime.models import CompletionResponse, ModelRegistry
from kestrel_nb.runtime.tools import ToolRegistry
from kestrel_nb.testing import ScriptedModel


def model(id: str) -> Any:
    return ScriptedModel([], id=id)


def tool(name: str) -> Any:
    return FunctionTool(name, lambda *_: "ok")


def test_the_first_model_is_the_default_until_one_is_chosen() -> None:
    models = ModelRegistry()
    assert models.default_model is None
    with pytest.raises(ModelNotFoundError, match="no model is registered"):
        models.get()
    models.register(model("b"))
    models.register(model("a"))
    assert models.default_model == "b"
    models.set_default("a")
    models.register(model("c"))
    assert models.get().info.id == "a"
    models.register(model("d"), set_default=True)
    assert models.default_model == "d"
    assert [info.id for info in models.list()] == ["a", "b", "c", "d"]
    assert models.size == 4


def test_a_configured_default_wins_over_the_first() -> None:
    models = ModelRegistry(default_model="late")
    models.register(model("early"))
    with pytest.raises(ModelNotFoundError, match='no model "late"'):
        models.get()
    models.register(model("late"))
    assert models.get().info.id == "late"


def test_models_by_name() -> None:
    models = ModelRegistry()
    dispose = models.register(model("gpt-large"))
    with pytest.raises(DuplicateNameError):
        models.register(model("gpt-large"))
    with pytest.raises(ModelNotFoundError, match='did you mean "gpt-large"'):
        models.get("gpt-larg")
    with pytest.raises(ModelNotFoundError, match="gpt-large"):
        models.set_default("zzz")
    models.register(model("other"))
    dispose()
    dispose()
    assert models.default_model == "other"
    assert not models.has("gpt-large")


def test_a_disposer_does_not_take_away_a_successor() -> None:
    models, tools = ModelRegistry(), ToolRegistry()
    dispose = models.register(model("a"))
    dispose()
    models.register(model("a"))
    dispose()
    assert models.has("a")
    old = tools.register(tool("t"))
    tools.register(tool("t"), replace=True)
    old()
    assert tools.get("t") is not None


def test_resolvers_answer_for_ids_that_nobody_registered() -> None:
    models = ModelRegistry()
    dispose = models.add_resolver(lambda id: model(id) if id.startswith("remote:") else None)
    assert models.get("remote:x").info.id == "remote:x"
    assert models.has("remote:y")
    assert models.list() == []
    dispose()
    dispose()
    assert not models.has("remote:y")


def test_a_response_keeps_parts_and_flat_fields_the_same() -> None:
    flat = CompletionResponse(content="text", reasoning="thought")
    again = CompletionResponse(parts=flat.parts)
    assert (again.content, again.reasoning, again.parts) == ("text", "thought", flat.parts)
