"""Every protocol value survives its JSON: built from the type hints, so that a new field is covered at once."""

import dataclasses
import types
import typing
from functools import cache
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kestrel_nb.protocol import events, messages, sessions, tools
from kestrel_nb.protocol.codec import decode, decode_event, dumps, encode, from_document, loads, to_document
from kestrel_nb.protocol.errors import CodecError

PATIENT = settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
NAUGHTY = [
    "",
    "\ud800",
    "a\udfffb",
    "\x00\x1b[2J",
    "\u2028",
    "\u202eevil",
    "é",
    "é",
    "NaN",
    "$unknown",
    "[[[{{{",
    "\\u0000",
]


def whole(text: str) -> str:
    """A high surrogate before a low one is one character in JSON."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


TEXT = st.one_of(st.sampled_from(NAUGHTY), st.text(st.characters(), max_size=8).map(whole))
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.one_of(st.sampled_from(["toolCalls", "tool_calls", "kind", "type", "createdAt", "created_at"]), TEXT)
FREE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FLOAT, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(KEYS, inner, max_size=2)),
    max_leaves=4,
)
OBJECT = st.dictionaries(KEYS.filter(lambda key: key != "$unknown"), FREE, max_size=2)
SCALARS = {str: TEXT, int: st.integers(), float: FLOAT, bool: st.booleans(), Any: FREE}


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type hint."""
    if hint in SCALARS:
        return SCALARS[hint]
    origin = get_origin(hint)
    if origin is tuple:
        return st.lists(values(get_args(hint)[0]), max_size=2).map(tuple)
    if origin is Literal:
        return st.sampled_from(get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(option) for option in get_args(hint)])
    if hint is type(None):
        return st.none()
    if hint is messages.ImagePart:
        return image()
    if dataclasses.is_dataclass(hint):
        return st.builds(hint, **fields(hint))
    return OBJECT


def fields(kind: Any) -> dict[str, st.SearchStrategy[Any]]:
    hints = typing.get_type_hints(kind)
    return {field.name: values(hints[field.name]) for field in dataclasses.fields(kind)}


def image() -> st.SearchStrategy[Any]:
    rest = {name: value for name, value in fields(messages.ImagePart).items() if name not in ("data", "url")}
    return st.one_of(st.builds(messages.ImagePart, data=TEXT, **rest), st.builds(messages.ImagePart, url=TEXT, **rest))


KINDS = sorted(
    (
        kind
        for module in (messages, tools, sessions, events)
        for kind in vars(module).values()
        if dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__ and kind is not events.SessionEvent
    ),
    key=lambda kind: kind.__name__,
)


def test_every_event_is_listed_once() -> None:
    assert {kind for kind in KINDS if issubclass(kind, events.SessionEvent)} == set(events.EVENT_TYPES)
    assert len({kind.type for kind in events.EVENT_TYPES}) == len(events.EVENT_TYPES)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_values_survive_their_json(kind: Any) -> None:
    @PATIENT
    @given(values(kind))
    def check(value: Any) -> None:
        text = dumps(encode(value))
        data = loads(text)
        back = decode(kind, data)
        assert back == value
        assert dumps(encode(back)) == text
        if issubclass(kind, events.SessionEvent):
            assert decode_event(data) == value

    check()


@PATIENT
@given(values(sessions.SessionDetail))
def test_documents_survive(detail: sessions.SessionDetail) -> None:
    assert from_document(sessions.SessionDetail, loads(dumps(to_document("session", detail)))) == detail


@PATIENT
@given(FREE)
def test_free_json_keeps_its_keys(value: Any) -> None:
    event = events.ToolExecuted(session_id="s", call_id="c", tool="t", content="", data=value)
    assert decode_event(loads(dumps(encode(event)))).data == value  # type: ignore[attr-defined]


JUNK = st.one_of(FREE, st.dictionaries(st.sampled_from(["id", "role", "parts", "kind", "type", "messages"]), FREE))


@PATIENT
@given(st.sampled_from(KINDS), JUNK, st.data())
def test_junk_gives_codec_errors_only(kind: Any, junk: Any, data: st.DataObject) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    if isinstance(junk, dict) and names:
        junk = {**junk, data.draw(st.sampled_from(names)): data.draw(FREE)}
    for read in (lambda: decode(kind, junk), lambda: from_document(kind, junk), lambda: decode_event(junk)):
        try:
            value = read()
        except CodecError:
            continue
        assert dataclasses.is_dataclass(value)
        assert dumps(encode(value))
