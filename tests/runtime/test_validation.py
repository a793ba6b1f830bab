"""Arguments against schemas: what is refused, in which words, and that the quick check agrees with the library."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrel_nb.protocol.errors import ToolSchemaError
from kestrel_nb.runtime import validation
from kestrel_nb.runtime.precheck import compile_check
from kestrel_nb.runtime.validation import check_schema, format_validation_issues, normalise, validate_arguments

DATA = Path(__file__).parent.parent / "data" / "json-schema"
ROWS = [json.loads(line) for line in (DATA / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
EXCLUDED = json.loads((DATA / "excluded.json").read_text(encoding="utf-8"))


def wrong(schema: dict[str, Any], args: Any) -> str:
    check_schema(schema)
    return format_validation_issues(validate_arguments(schema, args))


def one(part: Any, value: Any) -> str:
    return wrong({"type": "object", "properties": {"v": part}}, {"v": value})


# ---- the suite's rows -------------------------------------------------------------------------------------------


def test_every_row_is_run_or_excluded() -> None:
    assert len(ROWS) == 60
    assert set(EXCLUDED) <= {row["id"] for row in ROWS}


@pytest.mark.parametrize("row", [row for row in ROWS if row["id"] not in EXCLUDED], ids=lambda row: row["id"])
def test_suite_row(row: dict[str, Any]) -> None:
    part, data, valid = row["input"]["schema"], row["input"]["data"], row["expect"]["valid"]
    inside = {"type": "object", "properties": {"v": part}, "required": ["v"]}
    for schema, args in ((part, data), (inside, {"v": data})):
        issues = validate_arguments(schema, args)
        assert (issues == []) is valid, format_validation_issues(issues)
        assert valid or format_validation_issues(issues)


# ---- wording ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "value", "text"),
    [
        ({"type": "string"}, 1, "v: must be a string"),
        ({"type": "integer"}, "50", "v: must be an integer"),
        ({"type": "integer"}, 3.5, "v: must be an integer"),
        ({"type": "integer"}, True, "v: must be an integer"),
        ({"type": "number"}, False, "v: must be a number"),
        ({"type": "boolean"}, 1, "v: must be a boolean"),
        ({"type": "array"}, "a", "v: must be an array"),
        ({"type": "object"}, [], "v: must be an object"),
        ({"type": "null"}, 0, "v: must be null"),
        ({"type": ["string", "null"]}, 1, "v: must be a string or null"),
        ({"type": ["string", "integer", "null"]}, [], "v: must be a string, an integer or null"),
        ({"type": "array", "items": {"type": "string"}}, ["a", 2, 3], "v[1]: must be a string; v[2]: must be a string"),
        ({"properties": {"b": {"type": "string"}}}, {"b": 1}, "v.b: must be a string"),
        ({"required": ["b"]}, {}, "v.b: is required"),
        ({"enum": ["a", "b"]}, "c", 'v: must be one of "a", "b"'),
        ({"enum": [1, None, "é"]}, 2, 'v: must be one of 1, null, "é"'),
        ({"enum": [0]}, False, "v: must be one of 0"),
        ({"const": {"a": 1}}, {}, 'v: must be {"a": 1}'),
        ({"minimum": 1}, 0, "v: must be at least 1"),
        ({"maximum": 9}, 10, "v: must be at most 9"),
        ({"exclusiveMinimum": 1}, 1, "v: must be greater than 1"),
        ({"exclusiveMaximum": 1}, 1, "v: must be less than 1"),
        ({"multipleOf": 5}, 7, "v: must be a multiple of 5"),
        ({"pattern": "^a+$"}, "b", 'v: must match the pattern "^a+$"'),
        ({"minLength": 1}, "", "v: must have at least 1 character"),
        ({"maxLength": 2}, "abc", "v: must have at most 2 characters"),
        ({"minItems": 2}, [], "v: must have at least 2 items"),
        ({"maxItems": 1}, [1, 2], "v: must have at most 1 item"),
        ({"uniqueItems": True}, [1, 1], "v: must not hold the same item twice"),
        ({"minProperties": 1}, {}, "v: must have at least 1 property"),
        ({"prefixItems": [{}], "items": False}, [1, 2], "v: must have at most 1 items"),
        ({"not": {"type": "string"}}, "a", "v: has a form that is not allowed"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "v.b: is required when a is given"),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, 'v: has a name that is not allowed: "b"'),
        ({"properties": {"propertyNames": {"type": "null"}}}, {"propertyNames": 1}, "v.propertyNames: must be null"),
        ({"additionalProperties": False, "patternProperties": {"^x": {}}}, {"x1": 1, "y": 1}, "v.y: is not allowed"),
        ({"additionalProperties": {"type": "string"}}, {"y": 1}, "v.y: must be a string"),
        ({"properties": {"a": False}}, {"a": 1}, "v.a: is not allowed"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "v: must be an integer or null"),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, "x", 'v: must be "a" or null'),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, 0, "v: must be at least 1"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 9}]}, 5, "v: must fit exactly one of the allowed forms"),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            "v: must fit one of the allowed forms: v.a: is required | v.b: is required",
        ),
        ({"properties": {"x y": {"type": "null"}}}, {"x y": 1}, 'v["x y"]: must be null'),
    ],
)
def test_wording(part: Any, value: Any, text: str) -> None:
    assert one(part, value) == text


def test_o07_every_problem_in_one_message() -> None:
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "offset": {"type": "integer"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    text = wrong(schema, {"encoding": "utf-8", "reasoning": "x", "offset": "1"})
    assert sorted(text.split("; ")) == [
        "encoding: is not allowed",
        "offset: must be an integer",
        "path: is required",
        "reasoning: is not allowed",
    ]
    assert wrong(schema, {}) == "path: is required"
    assert wrong(schema, {"path": ["a"]}) == "path: must be a string"
    for args in ([], "a.txt", None, 3, [{"path": "a"}]):
        assert wrong(schema, args) == "the arguments must be an object"


def test_a_long_list_of_problems_is_bounded() -> None:
    text = one({"type": "array", "items": {"type": "string"}}, list(range(5000)))
    assert text.endswith("; and 4960 more")
    assert len(text) < 2000
    assert len(one({"enum": ["x" * 10_000] * 3000}, "y")) < 5000


# ---- integers, null, drafts, references -------------------------------------------------------------------------


def test_o01_a_whole_number_is_an_integer_and_arrives_as_int() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for given_value, wanted in ((3.0, 3), (1000.0, 1000), (-0.0, 0), (1e22, 10**22), (7, 7)):
        assert wrong(schema, {"n": given_value}) == ""
        got = normalise(schema, {"n": given_value})["n"]
        assert got == wanted
        assert type(got) is int
    assert wrong(schema, {"n": 3.5}) == "n: must be an integer"
    assert wrong(schema, {"n": float("inf")}) == "n: must be an integer"


@pytest.mark.parametrize(
    ("part", "value", "wanted"),
    [
        ({"type": "number"}, 3.0, 3.0),
        ({"type": ["integer", "null"]}, 3.0, 3),
        ({"type": ["integer", "number"]}, 3.0, 3.0),
        ({"type": "array", "items": {"type": "integer"}}, [1.0, 2], [1, 2]),
        ({"prefixItems": [{"type": "number"}, {"type": "integer"}]}, [1.0, 2.0, 3.0], [1.0, 2, 3.0]),
        ({"properties": {"a": {"properties": {"b": {"type": "integer"}}}}}, {"a": {"b": 1.0}}, {"a": {"b": 1}}),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1.0}, {"a": 1}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 2.0, 2),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, 2.0, 2.0),
        ({"allOf": [{"type": "integer"}]}, 2.0, 2),
        ({"$ref": "#/$defs/whole"}, 2.0, 2),
        ({"anyOf": [{"$ref": "#/$defs/whole"}, {"type": "null"}]}, 2.0, 2),
        ({}, 2.0, 2.0),
    ],
)
def test_normalise(part: Any, value: Any, wanted: Any) -> None:
    schema = {"type": "object", "properties": {"v": part}, "$defs": {"whole": {"type": "integer"}}}
    assert wrong(schema, {"v": value}) == ""
    assert repr(normalise(schema, {"v": value})["v"]) == repr(wanted)


def test_normalise_leaves_what_needs_no_change() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    args = {"n": 1, "x": [1.5, "a", None]}
    assert normalise(schema, args) is args


def test_o04_type_lists_and_nullable() -> None:
    schema = {
        "type": "object",
        "properties": {"s": {"type": ["string", "null"]}, "n": {"type": "integer", "nullable": True}},
    }
    for args in ({"s": None}, {"s": "a"}, {"n": None}, {"n": 1}):
        assert wrong(schema, args) == ""
    assert wrong(schema, {"s": 1}) == "s: must be a string or null"
    assert wrong(schema, {"n": "1"}) == "n: must be an integer"


def test_nullable_beside_any_keyword_and_only_where_it_stands() -> None:
    assert one({"enum": ["a"], "nullable": True}, None) == ""
    schema = {
        "type": "object",
        "properties": {"v": {"$ref": "#/$defs/w", "nullable": True}, "w": {"$ref": "#/$defs/w"}},
        "$defs": {"w": {"type": "object", "properties": {"nullable": {"type": "string"}}}},
    }
    assert wrong(schema, {"v": None}) == ""
    assert wrong(schema, {"w": None}) == "w: must be an object"
    assert wrong(schema, {"w": {"nullable": None}}) == "w.nullable: must be a string"
    assert one({"type": "string", "nullable": False}, None) == "v: must be a string"


def test_a_schema_that_names_another_draft_uses_it() -> None:
    tuple_form = {"type": "object", "properties": {"t": {"items": [{"type": "string"}], "additionalItems": False}}}
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **tuple_form}
    assert wrong(old, {"t": ["a"]}) == ""
    assert wrong(old, {"t": [1]}) == "t[0]: must be a string"
    assert wrong(old, {"t": ["a", 1]}) == "t: has more items than are allowed"
    with pytest.raises(ToolSchemaError):
        check_schema(tuple_form)
    older = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}
    older["properties"] = {"n": {"type": "number", "minimum": 1, "exclusiveMinimum": True}}
    assert wrong(older, {"n": 1}) == "n: must be greater than 1"
    unknown = {"$schema": "https://example.invalid/dialect", "type": "object", "required": ["a"]}
    assert wrong(unknown, {}) == "a: is required"


def test_local_references() -> None:
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {
            "node": {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}
        },
    }
    assert wrong(schema, {"tree": {"left": {"left": {"n": 1}}}}) == ""
    assert wrong(schema, {"tree": {"left": {"left": {"n": "1"}}}}) == "tree.left.left.n: must be an integer"
    anchored = {
        "type": "object",
        "properties": {"a": {"$ref": "#it"}},
        "$defs": {"x": {"$anchor": "it", "type": "null"}},
    }
    assert wrong(anchored, {"a": 1}) == "a: must be null"
    with_id = {
        "$id": "https://example.invalid/root",
        "type": "object",
        "properties": {"a": {"$ref": "other"}},
        "$defs": {"o": {"$id": "other", "type": "null"}},
    }
    assert wrong(with_id, {"a": 1}) == "a: must be null"


def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = {
        "type": "object",
        "properties": {"$ref": {"type": "string"}, "enum": {"type": "string"}, "type": {"type": "integer"}},
    }
    assert wrong(schema, {"$ref": "http://example.invalid", "enum": "x", "type": 1}) == ""
    assert wrong({"type": "object", "properties": {"a": {"enum": [{"$ref": "http://x.invalid"}]}}}, {}) == ""
    assert "__proto__: must be null" in wrong({"properties": {"__proto__": {"type": "null"}}}, {"__proto__": 1})


def test_a_remote_reference_is_refused_and_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        for part in ({"$ref": address}, {"anyOf": [{"type": "null"}, {"items": {"$ref": address + "#/a"}}]}):
            schema = {"type": "object", "properties": {"v": part}}
            with pytest.raises(ToolSchemaError, match="never fetched"):
                check_schema(schema)
            with pytest.raises(ToolSchemaError):
                validate_arguments(schema, {"v": [1]})
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    "schema",
    [
        [],
        "object",
        None,
        {"type": "string"},
        {"type": ["object", "null"]},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": {"type": "strin"}}},
        {"type": "object", "properties": {"a": 1}},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": {"pattern": r"\p{L}"}}},
        {"type": "object", "patternProperties": {"[": {}}},
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any) -> None:
    with pytest.raises(ToolSchemaError, match="parameters"):
        check_schema(schema)


def test_format_is_not_enforced() -> None:
    assert one({"type": "string", "format": "email"}, "no address") == ""


def test_deep_and_endless_things_become_issues() -> None:
    tree = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    deep: dict[str, Any] = {}
    for _ in range(20_000):
        deep = {"a": deep}
    assert "nested" in wrong(tree, deep)
    assert "nested" in wrong({"type": "object", "$ref": "#"}, {})
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"items": schema}
    with pytest.raises(ToolSchemaError):
        check_schema({"type": "object", "properties": {"a": schema}})
    assert normalise(tree, {"b": deep, "c": 1.0}) is not None


def test_what_json_has_no_word_for_becomes_an_issue() -> None:
    assert one({"type": "array"}, (1, 2)) == "v: must be an array"
    assert "v" in one({"type": "string"}, {1, 2})
    assert "plain JSON" in one({"type": "number", "multipleOf": 0.5}, float("nan"))


def test_any_mapping_is_taken_as_an_object() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    assert wrong(schema, MappingProxyType({"n": 1})) == ""
    assert wrong(schema, MappingProxyType({"n": "1"})) == "n: must be an integer"


def test_nothing_heavy_is_imported_for_plain_arguments() -> None:
    code = (
        "import sys\nfrom kestrel_nb.runtime.validation import validate_arguments\n"
        "s = {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}\n"
        "assert validate_arguments(s, {'n': 1}) == []\n"
        "assert 'jsonschema' not in sys.modules\nassert validate_arguments(s, {})\nassert 'jsonschema' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_checks_are_kept_per_schema_and_bounded() -> None:
    for number in range(1500):
        assert wrong_quick({"type": "object", "required": [str(number)]}, {str(number): 1})
    assert len(validation._cache) <= 512


def wrong_quick(schema: dict[str, Any], args: Any) -> bool:
    return validate_arguments(schema, args) == []


# ---- the quick check against the library ------------------------------------------------------------------------

SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5, -2.0]) | st.sampled_from("abc")
)
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])


def _schemas() -> st.SearchStrategy[Any]:
    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.fixed_dictionaries(
            {},
            optional={
                "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
                "properties": st.dictionaries(NAMES, inner, max_size=3),
                "required": st.lists(NAMES, max_size=2, unique=True),
                "additionalProperties": st.booleans() | inner,
                "items": inner,
                "enum": st.lists(SCALARS, max_size=3) | st.lists(st.sampled_from("abc"), max_size=2),
                "anyOf": st.lists(inner, min_size=1, max_size=3),
                "allOf": st.lists(inner, min_size=1, max_size=2),
                "not": inner,
                "const": SCALARS,
                "minimum": st.integers(-2, 2),
                "maximum": st.integers(-2, 2),
                "minLength": st.integers(0, 2),
                "maxItems": st.integers(0, 2),
                "description": st.just("words"),
                "format": st.just("date"),
            },
        )

    return st.recursive(st.booleans() | st.fixed_dictionaries({}, optional={"type": TYPES}), grow, max_leaves=6)


@settings(max_examples=400, deadline=None)
@given(schema=_schemas(), value=VALUES)
def test_the_quick_check_never_says_yes_where_the_library_says_no(schema: Any, value: Any) -> None:
    if compile_check(schema)(value):
        assert jsonschema.Draft202012Validator(schema).is_valid(value)


@settings(max_examples=300, deadline=None)
@given(
    properties=st.dictionaries(NAMES, _schemas(), max_size=3),
    required=st.lists(NAMES, max_size=2, unique=True),
    args=st.dictionaries(NAMES, VALUES, max_size=3),
    closed=st.booleans(),
)
def test_the_whole_agrees_with_the_library(
    properties: Any, required: list[str], args: dict[str, Any], closed: bool
) -> None:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": not closed}
    valid = jsonschema.Draft202012Validator(schema).is_valid(args)
    issues = validate_arguments(schema, args)
    assert (issues == []) is valid
    if valid:
        # A changed value is still valid and equal: 3 == 3.0.
        assert normalise(schema, args) == args
        assert jsonschema.Draft202012Validator(schema).is_valid(normalise(schema, args))
    else:
        assert format_validation_issues(issues)


@settings(max_examples=200, deadline=None)
@given(schema=VALUES, value=VALUES)
def test_the_quick_check_takes_any_schema(schema: Any, value: Any) -> None:
    compile_check(schema)(value)


@pytest.mark.parametrize("schema", [{"properties": 3}, {"required": [1]}, {"anyOf": 1}, {"enum": 2}, {"minimum": "a"}])
def test_the_quick_check_says_no_to_broken_schemas(schema: Any) -> None:
    assert compile_check(schema)({}) is False
