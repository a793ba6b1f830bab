"""How a small model calls tools: each reply is one JSON object whose schema the sampler enforces.

A reply names a tool with its arguments, or ``answer`` with a text. Small models don't call tools of their own accord,
and their chat templates often drop them; a schema and one example for each tool is what made SmolLM2-135M call the
right one at all. Every text in the schema is bounded, since a small model that need not stop does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ..protocol.messages import ChatMessage, ImagePart, JsonObject, TextPart, ToolCallPart, ToolResultPart
from ..protocol.tools import ToolSchema
from ..runtime.models import CompletionRequest

ANSWER: Final = "answer"
TEXT_CHARS: Final = 300  # of one text argument
ANSWER_CHARS: Final = 2000
ITEMS: Final = 8  # of a list
DEPTH: Final = 4  # of arguments inside arguments
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
OPTIONAL: Final = 2  # optional arguments that are offered: a small model fills in what it sees
# A small model falls into saying one sentence for ever. DRY makes the next word of a repetition the less likely the
# longer it is already; it looks at the last words alone, so that a result may still be quoted.
NO_REPETITION: Final = {"dry_multiplier": 0.8, "dry_allowed_length": 2, "dry_penalty_last_n": 64}
NOW_ANSWER: Final = "\nAnswer now, or use another tool."
MAX_TOKENS: Final = 256  # of one reply where nobody says how many

_WORDS: Final = {  # what a text argument of an example says, by the words in its name
    "folder": "src",
    "dir": "src",
    "path": "notes.txt",
    "file": "notes.txt",
    "pattern": "total",
    "regex": "total",
    "query": "total",
    "url": "https://example.com/",
    "expression": "12 * 7",
    "command": "ls -l",
    "code": "print(1)",
    "zone": "Europe/Oslo",
    "content": "hello",
}


def request_body(
    request: CompletionRequest, tools: Sequence[ToolSchema], *, must_answer: bool = False
) -> dict[str, Any]:
    """The body of a streamed chat completion of llama.cpp. Without ``tools`` it is plain chat.

    ``must_answer`` leaves the model no call; the prompt is the same, so that what was read of it is kept.
    """
    messages = request.messages
    body: dict[str, Any] = {
        "messages": _merged([*_opening(messages, tools), *_turns(messages, structured=bool(tools))]),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,  # a chunk for each piece of the prompt: there it can be stopped, too
        "temperature": request.temperature or 0,
        "max_tokens": request.max_tokens or MAX_TOKENS,
        **NO_REPETITION,
    }
    if tools:
        choices = [_object({"tool": {"const": ANSWER}, "text": _text(ANSWER_CHARS)})]
        if not must_answer:
            choices = [*map(_call_schema, tools), *choices]
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": {"anyOf": choices}},
        }
    return body


def repeats(call: ToolCallPart, messages: Sequence[ChatMessage]) -> bool:
    """True when ``call`` is the last call again, and its result is there: it could tell nothing new."""
    last = next((each for each in reversed(messages) if each.role != "tool"), None)
    calls = last.tool_calls if last is not None and last.role == "assistant" else ()
    return any(each.name == call.name and each.arguments == call.arguments for each in calls)


# ---- messages -----------------------------------------------------------------------------------------------------


def _opening(messages: Sequence[ChatMessage], tools: Sequence[ToolSchema]) -> list[dict[str, str]]:
    """The system message with the tools, and an example of each."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    if not tools:
        return [{"role": "system", "content": system}] if system else []
    lines = [f"- {tool.name}: {_first_sentence(tool.description)}" for tool in tools]
    rules = (
        "Reply with one JSON object. To use a tool:\n"
        '{"tool": NAME, "arguments": {...}}\nTo answer the person, once the results are there:\n'
        f'{{"tool": "{ANSWER}", "text": "..."}}\nTools:\n' + "\n".join(lines)
    )
    opening = [{"role": "system", "content": f"{system}\n\n{rules}" if system else rules}]
    for tool in tools:
        arguments = example(tool.parameters)
        opening += [_user(_request(tool, arguments)), _assistant(_call(tool.name, arguments))]
        opening += [_user(f"{tool.name} gave:\n42{NOW_ANSWER}"), _assistant(_answer("The result is 42."))]
    return opening


def _request(tool: ToolSchema, arguments: JsonObject) -> str:
    """What a person might have said to get this call."""
    wish = _first_sentence(tool.description).partition(",")[0]
    return f"{wish}: {_spelled(arguments)}".rstrip(": ")


def _turns(messages: Sequence[ChatMessage], *, structured: bool) -> Iterable[dict[str, str]]:
    for message in messages:
        if message.role == "user":
            yield _user("\n".join(map(_user_text, message.parts)))
        elif message.role == "assistant":
            yield from _assistant_turns(message, structured=structured)
        elif message.role == "tool":
            for result in message.tool_results:
                yield _user(_result(result))


def _assistant_turns(message: ChatMessage, *, structured: bool) -> Iterable[dict[str, str]]:
    calls = [_call(call.name, call.arguments or {}) for call in message.tool_calls]
    text = [_answer(message.content) if structured else message.content] if message.content else []
    if said := calls or text:
        yield _assistant("\n".join(said))


def _user_text(part: Any) -> str:
    if isinstance(part, ImagePart):
        return "[a picture, which you can't see]"
    return part.text if isinstance(part, TextPart) else ""


def _result(result: ToolResultPart) -> str:
    return f"{result.name} {'failed' if result.is_error else 'gave'}:\n{result.content}{NOW_ANSWER}"


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _merged(turns: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """``turns`` with neighbours of one role as one message: many chat templates insist that the roles alternate."""
    merged: list[dict[str, str]] = []
    for turn in turns:
        if merged and merged[-1]["role"] == turn["role"]:
            merged[-1] = {**turn, "content": f"{merged[-1]['content']}\n\n{turn['content']}"}
        else:
            merged.append(turn)
    return merged


def _call(name: str, arguments: JsonObject) -> str:
    return json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False)


def _answer(text: str) -> str:
    return json.dumps({"tool": ANSWER, "text": text}, ensure_ascii=False)


def _first_sentence(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line.partition(". ")[0].rstrip(".")


# ---- schemas ------------------------------------------------------------------------------------------------------


# The words of JSON Schema that are read here, and what they hold. Tools come from plugins and servers of others.
_KINDS: Final[Mapping[str, Any]] = {
    "type": (str, list),
    "properties": Mapping,
    **dict.fromkeys(("required", "enum", "anyOf", "oneOf", "examples"), (list, tuple)),
    **dict.fromkeys(("maxLength", "maxItems"), int),
    **dict.fromkeys(BOUNDS, (int, float)),
}


def _call_schema(tool: ToolSchema) -> dict[str, Any]:
    return _object({"tool": {"const": tool.name}, "arguments": bounded(tool.parameters)})


def bounded(schema: JsonObject) -> dict[str, Any]:
    """What a sampler can enforce of ``schema``, that of a tool's arguments; every text, list and object has an end."""
    return _bounded(_top(schema), schema, DEPTH)


def _top(schema: JsonObject) -> JsonObject:
    """``schema`` as that of an object, whatever else it says."""
    found = _resolved(schema, schema)
    return {
        "type": "object",
        **{key: found[key] for key in ("properties", "required", "anyOf", "oneOf") if key in found},
    }


def _bounded(schema: Any, root: JsonObject, depth: int) -> dict[str, Any]:
    schema = _resolved(schema, root)
    kind = schema.get("type")
    choices = _choices(schema, root) if depth else []
    if choices:
        return {"anyOf": [_bounded(each, root, depth - 1) for each in choices]}
    if isinstance(kind, list) and "enum" not in schema:
        return {"anyOf": [_bounded({**schema, "type": each}, root, depth) for each in kind]}
    if "enum" in schema or "const" in schema:
        return {key: schema[key] for key in ("enum", "const") if key in schema}
    if kind == "object" or "properties" in schema:
        return _bounded_object(schema, root, depth)
    if kind == "array":
        items = _bounded(schema.get("items", {}), root, depth - 1) if depth else _text(TEXT_CHARS)
        return {"type": "array", "items": items, "maxItems": min(ITEMS, schema.get("maxItems", ITEMS))}
    if kind == "integer":
        return {"type": kind, **{key: schema[key] for key in BOUNDS if isinstance(schema.get(key), int)}}
    if kind in ("number", "boolean", "null"):
        return {"type": kind}
    return _text(min(TEXT_CHARS, schema.get("maxLength", TEXT_CHARS)))


def _choices(schema: JsonObject, root: JsonObject) -> list[JsonObject]:
    """The alternatives in ``schema``. Beside properties they only say which of those go together."""
    if "properties" in schema:
        return []
    given = {"type": schema["type"]} if "type" in schema else {}
    return [{**given, **_resolved(each, root)} for each in schema.get("anyOf") or schema.get("oneOf") or ()]


def _bounded_object(schema: JsonObject, root: JsonObject, depth: int) -> dict[str, Any]:
    properties: JsonObject = schema.get("properties", {}) if depth else {}
    required = _required(schema, properties)
    optional = [name for name in properties if name not in required][:OPTIONAL]
    kept = {name: _bounded(properties[name], root, depth - 1) for name in properties if name in {*required, *optional}}
    return _object(kept, required)


def _resolved(schema: Any, root: JsonObject) -> JsonObject:
    """``schema`` behind its references into ``root``, without what is not as JSON Schema has it; perhaps {}."""
    return {key: value for key, value in _followed(schema, root, DEPTH).items() if _is_usual(key, value)}


def _is_usual(key: str, value: Any) -> bool:
    kind = _KINDS.get(key)
    return kind is None or (isinstance(value, kind) and value not in ([], ()))


def _followed(schema: Any, root: JsonObject, depth: int) -> JsonObject:
    """``schema`` behind its references; {} for what is no schema, or refers in a circle."""
    for _ in range(DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            # One schema in an allOf is the way to add a word to a reference.
            parts = schema.get("allOf")
            first = parts[0] if depth and parts and isinstance(parts, list) else {}
            return {**_followed(first, root, depth - 1), **schema} if first else schema
        schema = root
        for step in reference.removeprefix("#/").split("/"):
            schema = schema.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(schema, Mapping) else None
    return {}


def _required(schema: JsonObject, properties: JsonObject) -> list[str]:
    return [name for name in schema.get("required", ()) if isinstance(name, str) and name in properties]


def _object(properties: JsonObject, required: Sequence[str] | None = None) -> dict[str, Any]:
    names = [*properties] if required is None else [*required]
    return {"type": "object", "properties": dict(properties), "required": names, "additionalProperties": False}


def _text(chars: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": chars}


# ---- examples -----------------------------------------------------------------------------------------------------


def example(parameters: JsonObject) -> dict[str, Any]:
    """Arguments that fit ``parameters``: those that are required."""
    found = _example("", _top(parameters), parameters, DEPTH + 1)
    return found if isinstance(found, dict) else {}


def _example(name: str, schema: Any, root: JsonObject, depth: int) -> Any:
    schema = _resolved(schema, root)
    for given in ("const", "default"):
        if schema.get(given) is not None:
            return schema[given]
    for listed in ("examples", "enum"):
        if schema.get(listed):
            return schema[listed][0]
    choices = _choices(schema, root) if depth else []
    if choices:
        return _example(name, choices[0], root, depth - 1)
    kind = schema.get("type")
    kind = next((each for each in kind if isinstance(each, str)), None) if isinstance(kind, list) else kind
    if kind == "array":
        return [_example(name, schema.get("items", {}), root, depth - 1)] if depth else []
    if kind == "object":
        return _example_object(schema, root, depth - 1) if depth else {}
    if kind in ("integer", "number"):
        return _example_number(schema, 3 if kind == "integer" else 1.5)
    plain = {"boolean": True, "null": None}
    return plain[kind] if kind in plain else _example_text(name)


def _example_number(schema: JsonObject, usual: float) -> float:
    """``usual`` within the bounds of ``schema``, as far as there are any."""
    least: float = max(schema.get("minimum", usual), schema.get("exclusiveMinimum", usual - 1) + 1)
    most: float = min(schema.get("maximum", least), schema.get("exclusiveMaximum", least + 1) - 1)
    return min(least, most)


def _example_object(schema: JsonObject, root: JsonObject, depth: int) -> dict[str, Any]:
    properties: JsonObject = schema.get("properties", {})
    return {name: _example(name, properties[name], root, depth) for name in _required(schema, properties)}


def _example_text(name: str) -> str:
    return next((text for word, text in _WORDS.items() if word in name.lower()), name)


def _spelled(arguments: JsonObject) -> str:
    values = (value if isinstance(value, str) else json.dumps(value) for value in arguments.values())
    return ", ".join(values)
