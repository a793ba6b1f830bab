"""Replies of a local model as they are written, cut anywhere; and which tools and schemas it is shown."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb.protocol.messages import (
    ChatMessage,
    ImagePart,
    TextPart,
    ToolCallPart,
    create_message,
    tool_message,
)
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers.local_protocol import bounded, example, repeats, request_body
from kestrel_nb.providers.local_reply import CallOrAnswer, PlainReply
from kestrel_nb.runtime.few_tools import few_tools
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse, TokenDelta
from kestrel_nb.runtime.validation import validate_arguments

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def fed(raw: str, size: int) -> tuple[CompletionResponse, list[TokenDelta]]:
    """``raw`` read in pieces of ``size`` characters."""
    reply = CallOrAnswer()
    deltas = [delta for at in range(0, len(raw), size) for delta in reply.feed(raw[at : at + size])]
    return CompletionResponse(parts=reply.parts()), deltas


@given(WORDS, st.integers(1, 9), st.booleans())
def test_an_answer_is_told_as_it_is_written(text: str, size: int, ascii_only: bool) -> None:
    raw = json.dumps({"tool": "answer", "text": text}, ensure_ascii=ascii_only)
    response, deltas = fed(raw, size)
    assert response.content == text
    assert "".join(delta.text for delta in deltas) == text
    assert all(delta.text for delta in deltas)


@given(st.dictionaries(WORDS, JSON, max_size=3), st.integers(1, 9))
def test_a_call_is_told_as_it_is_written(arguments: dict[str, Any], size: int) -> None:
    response, deltas = fed(json.dumps({"tool": "read_file", "arguments": arguments}), size)
    (call,) = response.tool_calls
    assert (call.name, call.arguments, call.problem) == ("read_file", arguments, None)
    assert {delta.call_id for delta in deltas} == {call.id}
    assert "".join(delta.arguments for delta in deltas) == call.raw_arguments == json.dumps(arguments)


def test_white_space_between_the_words_does_not_matter() -> None:
    raw = '\n { "tool" :\t"glob" ,\n "arguments" : { "pattern" : "*.py" }\n}\n'
    assert fed(raw, 3)[0].tool_calls[0].arguments == {"pattern": "*.py"}


@pytest.mark.parametrize(
    ("raw", "text", "problem"),
    [
        ('{"tool": "answer", "text": "half a sen', "half a sen", None),
        ('{"tool": "answer", "text": "a quote \\', "a quote ", None),
        ('{"tool": "answer", "text": "\\ud83d\\u', "", None),
        ('{"tool": "answer", "text": "a lone \\ud83d half"}', "a lone \ud83d half", None),
        ('{"tool": "glob", "arguments": {"pattern": "*.p', "", "not valid JSON"),
        ('{"tool": "gl', "", None),
        ("", "", None),
    ],
)
def test_a_reply_that_was_cut_off(raw: str, text: str, problem: str | None) -> None:
    response, _ = fed(raw, 4)
    assert response.content == text
    assert [problem in (call.problem or "") for call in response.tool_calls] == ([True] if problem else [])


def test_a_plain_reply_is_its_text() -> None:
    reply = PlainReply()
    assert [reply.feed(piece) for piece in ("a", "", "b")] == [[TokenDelta(text="a")], [], [TokenDelta(text="b")]]
    assert reply.parts() == (TextPart(text="ab"),)


# ---- schemas ------------------------------------------------------------------------------------------------------

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/Point"},
            "mode": {"enum": ["fast", "slow"]},
            "many": {"type": "array", "items": {"type": ["integer", "null"]}},
            "either": {"anyOf": [{"type": "number"}, {"type": "string", "maxLength": 5}]},
        },
        "required": ["a", "mode", "many", "either"],
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    },
    {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        "required": ["tree"],
        "$defs": {"Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}},
    },
    {
        "type": "object",
        "properties": {"colour": {"allOf": [{"$ref": "#/$defs/Colour"}]}, "node": {"$ref": "#/$defs/Node"}},
        "required": ["colour"],
        "$defs": {
            "Colour": {"enum": ["red", "blue"], "type": "string"},
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]},
        },
    },
    {},
    {"$ref": "#/$defs/It", "$defs": {"It": {"properties": {'größe "x" 🐦': {"type": "boolean"}}, "required": []}}},
    {
        "properties": {name: {"type": "string"} for name in "ab"},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "required": ["a"],
    },
    {
        "oneOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"type": "number"}}, "required": ["b"]}],
        "$defs": {"A": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    },
    {
        "type": "object",
        "properties": {
            "high": {"type": "integer", "minimum": 1000, "maximum": 1002},
            "low": {"type": ["integer", "null"], "exclusiveMaximum": -7},
            "part": {"type": "number", "exclusiveMinimum": 10},
            "mixed": {"type": ["string", "null"], "enum": [None, "ä"]},
        },
        "required": ["high", "low", "part", "mixed"],
    },
    {"type": "object", "properties": {"loop": {"$ref": "#/properties/loop"}, "odd": True, "none": {"$ref": "#/x"}}},
]


def unbounded(schema: Any) -> list[Any]:
    """What in ``schema`` a model could go on with for ever."""
    if isinstance(schema, list):
        return [found for each in schema for found in unbounded(each)]
    if not isinstance(schema, dict):
        return []
    bad = (
        (schema.get("type") == "string" and "maxLength" not in schema)
        or (schema.get("type") == "array" and "maxItems" not in schema)
        or (schema.get("type") == "object" and schema.get("additionalProperties") is not False)
    )
    return [*([schema] if bad else []), *(found for each in schema.values() for found in unbounded(each))]


ODD: list[dict[str, Any]] = [
    {"type": "object", "properties": None, "required": None},
    {
        "type": "object",
        "properties": {"a": {"enum": []}, "b": {"anyOf": []}, "c": {"type": []}},
        "required": ["a", [], 3],
    },
    {"type": "string"},
    {"enum": ["a text"]},
    {
        "type": "object",
        "properties": {
            "number": {"type": "integer", "minimum": None, "maximum": "9"},
            "text": {"type": "string", "maxLength": None},
            "list": {"type": "array", "maxItems": None, "items": [{"type": "integer"}]},
            "strange": {"type": ["strange", 7, {}]},
            "stranger": {"type": [{}, []], "allOf": {"type": "integer"}},
            "shut": False,
        },
        "required": ["number", "text", "list", "strange", "stranger", "shut", "nowhere"],
    },
]


@pytest.mark.parametrize("schema", ODD)
def test_a_schema_that_is_none_offers_what_can_be_read_of_it(schema: dict[str, Any]) -> None:
    small = bounded(schema)
    assert small["type"] == "object"
    assert unbounded(small) == []
    assert validate_arguments(small, example(schema)) == []


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_text_list_and_object_has_an_end(schema: dict[str, Any]) -> None:
    small = bounded(schema)
    assert unbounded(small) == []
    assert "$ref" not in json.dumps(small)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_example_of_a_tool_fits_its_schema(schema: dict[str, Any]) -> None:
    arguments = example(schema)
    assert validate_arguments(schema, arguments) == []
    assert validate_arguments(bounded(schema), arguments) == []


def test_an_example_ends_where_its_schema_does_not() -> None:
    schema = {**SCHEMAS[4], "required": ["colour", "node"]}
    assert example(schema)["colour"] == "red"
    assert "next" in json.dumps(example(schema))
    circle = {"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/properties/a"}]}}, "required": ["a"]}
    assert example(circle) == {"a": "a"}
    assert unbounded(bounded(circle)) == []


def test_optional_arguments_stay_few() -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in "abcdef"}, "required": ["e"]}
    assert list(bounded(schema)["properties"]) == ["a", "b", "e"]


# ---- messages -----------------------------------------------------------------------------------------------------


def call_of(name: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(id=f"call-{name}", name=name, arguments=arguments, raw_arguments=json.dumps(arguments))


def body_of(messages: list[ChatMessage], *tools: ToolSchema) -> list[dict[str, str]]:
    body = request_body(CompletionRequest(model="x", messages=tuple(messages), tools=tools), tools)
    sent: list[dict[str, str]] = body["messages"]
    return sent


def test_roles_alternate_whatever_was_said() -> None:
    tool = ToolSchema(name="glob", description="Find files. Really.")
    calls = [call_of("glob", pattern="*"), call_of("grep", pattern="x")]
    picture = ImagePart(data="AAAA")
    said = [
        create_message("system", "Be brief."),
        create_message("user", [TextPart(text="look"), picture]),
        create_message("user", "please"),
        create_message("assistant", [TextPart(text="I will."), *calls]),
        tool_message(calls[0], "a.py"),
        tool_message(calls[1], "no such thing", is_error=True),
        create_message("assistant", "One file."),
    ]
    for tools in ((), (tool,)):
        sent = body_of(said, *tools)
        assert [m["role"] for m in sent[1:]] == [("user", "assistant")[i % 2] for i in range(len(sent) - 1)]
        text = json.dumps(sent)
        assert all(word in text for word in ("look", "please", "a.py", "grep failed", "One file.", "can't see"))
        assert "AAAA" not in text


def test_a_model_without_tools_is_asked_as_it_is() -> None:
    sent = body_of([create_message("user", "hello"), create_message("assistant", "Hi."), create_message("user", "?")])
    assert [m["content"] for m in sent] == ["hello", "Hi.", "?"]


def test_only_the_last_call_again_counts_as_a_repetition() -> None:
    first, other = call_of("glob", pattern="*"), call_of("read_file", path="a")
    said = [create_message("user", "look"), create_message("assistant", [first]), tool_message(first, "a.py")]
    assert repeats(call_of("glob", pattern="*"), said)
    assert not repeats(call_of("glob", pattern="**"), said)
    assert not repeats(first, [*said, create_message("user", "once more")])
    assert not repeats(first, [*said, create_message("assistant", [other]), tool_message(other, "text")])


# ---- which tools --------------------------------------------------------------------------------------------------

TOOLS = tuple(
    ToolSchema(name=name, description=text, read_only=read_only)
    for name, text, read_only in (
        ("date-time", "The current date and time", True),
        ("finish", "End this run", True),
        ("glob", "Find files by name", True),
        ("grep", "Search the lines of text files", True),
        ("math-eval", "Compute an arithmetic expression", True),
        ("read_file", "Read a text file", True),
        ("todo_write", "Replace the visible task list of this run", True),
        ("write_file", "Create a text file", False),
    )
)


def names(limit: int | None, *messages: ChatMessage) -> list[str]:
    return [tool.name for tool in few_tools(TOOLS, limit, messages)]


def test_all_tools_where_they_fit_or_nothing_limits_them() -> None:
    asked = create_message("user", "hello")
    assert names(None, asked) == names(8, asked) == [tool.name for tool in TOOLS]


@pytest.mark.parametrize(
    ("asked", "among"),
    [
        ("read the file a.txt", "read_file"),
        ("write hello into a file", "write_file"),
        ("what is the date today", "date-time"),
        ("compute 3 + 4", "math-eval"),
        ("search the files for total", "grep"),
    ],
)
def test_the_tools_that_were_asked_for(asked: str, among: str) -> None:
    chosen = names(3, create_message("user", asked))
    assert among in chosen
    assert len(chosen) == 3
    assert "finish" not in chosen
    assert chosen == sorted(chosen)


def test_a_tool_that_was_called_stays_for_the_rest_of_the_run() -> None:
    call = call_of("todo_write")
    asked = create_message("user", "read the file")
    called = create_message("assistant", [call])
    assert "todo_write" in names(2, asked, called, tool_message(call, "kept"))
    assert "todo_write" not in names(2, asked, called, tool_message(call, "kept"), create_message("user", "read on"))
