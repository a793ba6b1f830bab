"""``%kestrel policy explain``: what would happen to one exact call. It is checked like a real one, and never run."""

from __future__ import annotations

from typing import Any

from ..protocol.codec import loads
from ..protocol.errors import CodecError, UsageError
from ..protocol.messages import JsonObject
from ..protocol.tools import ToolSchema
from ..runtime.call_questions import invalid
from ..runtime.permissions import decide, default_permission
from ..runtime.rule_checks import may_be_text
from ..runtime.validation import normalise
from .cell import split_words
from .policy_view import Explanation, number_of
from .state import NotebookState
from .visible import one_line, visible


async def explain(state: NotebookState, line: str) -> Explanation:
    """What would happen to a call. It is checked and compared like a real one, and never run."""
    name, _, rest = line.strip().partition(" ")
    if not name:
        raise UsageError("usage: %kestrel policy explain TOOL NAME=VALUE ..., or TOOL and a JSON object")
    await state.app.initialize()
    state.tools.refresh(state.app)
    tool = state.app.tools.get(name)
    if tool is None:
        raise UsageError(visible(state.app.why_not(one_line(name, 64)) or name))
    arguments = arguments_of(tool.schema, rest.strip())
    problem = invalid(tool, arguments)
    if problem:
        raise UsageError(f"a call with these arguments would fail: {problem}")
    refusal = state.app.tool_policy.refusal(name)
    if refusal:
        return Explanation(name, arguments, "deny", refusal)
    session = state.begun
    if session is not None and not session.offers(name):
        return Explanation(name, arguments, "deny", f"`{name}` is not offered in this session, so a call of it fails")
    rules = state.rules.numbered(session or state.app.sessions)
    given = normalise(tool.schema.parameters, arguments)
    default = default_permission(tool, given)
    decision, reason, rule = decide([item.rule for item in rules], tool.schema, given, default=default)
    if state.app.sessions.has_resolver and decision != "deny" and (rule is None or rule.action != "deny"):
        reason += "; then the application's own function decides"
    return Explanation(name, arguments, decision, reason, rule, number_of(rules, rule))


def arguments_of(schema: ToolSchema, text: str) -> JsonObject:
    """The arguments in ``text``: one JSON object, or words NAME=VALUE. Raises UsageError."""
    for candidate in (text, *(split_words(text) if text.startswith(("'", '"')) else ())):
        if candidate.startswith("{"):
            return _object(candidate)
    properties = schema.parameters.get("properties", {})
    arguments: dict[str, Any] = {}
    for word in split_words(text):
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f'arguments are NAME=VALUE, "{one_line(word, 40)}" is not; quote a value with spaces')
        arguments[name] = value if may_be_text(properties.get(name)) else _value(name, value)
    return arguments


def _object(text: str) -> JsonObject:
    try:
        value = loads(text)
    except CodecError as error:
        raise UsageError(f"the arguments are no JSON object ({error})") from None
    if not isinstance(value, dict):
        raise UsageError("the arguments are no JSON object")
    return value


def _value(name: str, text: str) -> Any:
    try:
        return loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except CodecError:
        raise UsageError(
            f'{one_line(name, 64)}: "{one_line(text, 40)}" is no JSON value, as this argument needs'
        ) from None
