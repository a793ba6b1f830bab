"""Schemas of tools that OpenAI's API refuses as they are, in both of its formats."""

from __future__ import annotations

import json
from typing import Any

import pytest
from replies import wire_of

from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.runtime.models import CompletionRequest

NUMBER = {"type": "number"}


def offered(api: str, parameters: dict[str, Any]) -> Any:
    tool = ToolSchema(name="f", description="d", parameters=parameters)
    request = CompletionRequest(model="m", messages=(create_message("user", "go"),), tools=(tool,))
    (sent,) = json.loads(wire_of(api).encode(request, stream=True).body)["tools"]
    return sent.get("function", sent)["parameters"]


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, {"properties": {}}),
        ({"type": ["object", "null"], "properties": {"a": NUMBER}}, {"properties": {"a": NUMBER}}),
        ({"properties": {"a": NUMBER}, "not": {"required": ["b"]}}, {"properties": {"a": NUMBER}}),
        ({"properties": {}, "enum": [{}]}, {"properties": {}}),
        (
            {
                "anyOf": [{"properties": {"a": NUMBER}}, {"$ref": "#/$defs/B"}],
                "$defs": {"B": {"properties": {"b": {}}}},
            },
            {"properties": {"a": NUMBER, "b": {}}, "$defs": {"B": {"properties": {"b": {}}}}},
        ),
        (
            {"properties": {"a": {"anyOf": [NUMBER, {"type": "array"}]}}},
            {"properties": {"a": {"anyOf": [NUMBER, {"type": "array", "items": {}}]}}},
        ),
        (
            {"properties": {"a": {"type": ["array", "null"], "prefixItems": [{"type": "array", "items": NUMBER}]}}},
            {
                "properties": {
                    "a": {
                        "type": ["array", "null"],
                        "prefixItems": [{"type": "array", "items": NUMBER}],
                        "items": {},
                    }
                }
            },
        ),
        (
            {"properties": {"a": {"type": "object", "default": {"type": "array"}}}},
            {"properties": {"a": {"type": "object", "default": {"type": "array"}}}},
        ),
        (
            {"properties": {"type": {"type": "string"}, "default": {"type": "array"}}},
            {"properties": {"type": {"type": "string"}, "default": {"type": "array", "items": {}}}},
        ),
    ],
)
def test_what_openai_refuses(api: str, parameters: dict[str, Any], expected: dict[str, Any]) -> None:
    before = json.dumps(parameters)
    assert offered(api, parameters) == {"type": "object", **expected}
    assert json.dumps(parameters) == before


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
def test_what_it_takes_is_sent_as_it_is(api: str) -> None:
    fine = {
        "type": "object",
        "properties": {"a": {"oneOf": [NUMBER, {"$ref": "#/$defs/x"}]}, "b": {"type": "array", "items": NUMBER}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"x": {"enum": ["p", 1, None], "not": {"const": 2}}},
    }
    assert json.dumps(offered(api, fine)) == json.dumps(fine)
