"""Arguments against a tool's JSON Schema.

The draft is 2020-12 unless the schema's ``$schema`` names another one that is known. ``format`` is not enforced,
``nullable: true`` (of OpenAPI) lets null pass wherever it stands, a reference works only inside the schema and is
never fetched. A whole number such as 3.0 counts as an integer, True does not.

A schema's checks are built once and kept by the identity of the mapping, so a schema must not be changed after its
first use. Most calls never reach the library: see ``precheck``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from ..protocol.errors import ToolSchemaError
from ..protocol.messages import JsonObject
from .grammars import grammars_later
from .issues import JsonValidationIssue, format_validation_issues, issues_of
from .precheck import compile_check

__all__ = ["JsonValidationIssue", "check_schema", "format_validation_issues", "normalise", "validate_arguments"]

_KEPT = 512  # schemas; a session with more tools than this rebuilds some
_DATA_KEYWORDS = frozenset(("enum", "const", "default", "examples", "example"))
_LISTED_SCHEMAS = frozenset(("anyOf", "oneOf", "allOf", "prefixItems"))
_NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))


class _Compiled:
    """The two checks of one schema; the library's is made when first needed."""

    __slots__ = ("_validator", "fits", "schema")

    def __init__(self, schema: JsonObject) -> None:
        self.schema = schema
        try:
            self.fits = compile_check(schema)
        except RecursionError:
            self.fits = compile_check(False)
        self._validator: Any = None

    @property
    def validator(self) -> Any:
        if self._validator is None:
            self._validator = _make_validator(self.schema)
        return self._validator


_cache: dict[int, _Compiled] = {}


def _compiled(schema: JsonObject) -> _Compiled:
    found = _cache.get(id(schema))
    if found is not None and found.schema is schema:
        return found
    made = _Compiled(schema)
    while len(_cache) >= _KEPT:
        _cache.pop(next(iter(_cache), 0), None)
    _cache[id(schema)] = made
    return made


def check_schema(schema: JsonObject) -> None:
    """Raise ToolSchemaError unless ``schema`` is valid, describes an object, and refers to nothing outside itself."""
    if isinstance(schema, Mapping) and schema.get("type", "object") not in ("object", ["object"]):
        raise ToolSchemaError('parameters must describe an object: set "type" to "object"')
    _ = _compiled(schema).validator


def validate_arguments(schema: JsonObject, args: Any) -> list[JsonValidationIssue]:
    """Everything that is wrong with ``args``; empty when the tool may be called with them.

    Raises ToolSchemaError when the schema was never checked and is of no use.
    """
    compiled = _compiled(schema)
    if not isinstance(args, Mapping) and schema.get("type") == "object":
        return [JsonValidationIssue(path="", message="must be an object")]
    try:
        if compiled.fits(args):
            return []
        plain = dict(args) if isinstance(args, Mapping) else args
        return issues_of(compiled.validator.iter_errors(plain))
    except RecursionError:
        return [JsonValidationIssue(path="", message="must not be nested so deeply")]
    except (ArithmeticError, TypeError, ValueError) as error:
        # Values that JSON has no word for (NaN, sets), from a caller in Python.
        return [JsonValidationIssue(path="", message=f"must be plain JSON ({error})")]


# ---- building the validator -------------------------------------------------------------------------------------


def _make_validator(schema: JsonObject) -> Any:
    with grammars_later():
        from jsonschema.exceptions import SchemaError
    from referencing import Registry

    if not isinstance(schema, Mapping):
        raise ToolSchemaError("parameters must be a JSON Schema object")
    plain = dict(schema)
    draft = _draft(plain.get("$schema"))
    try:
        draft.check_schema(plain)
        nullable = _check_parts(plain, _resolver(plain, draft), draft)
    except SchemaError as error:
        where = "/".join(str(step) for step in error.absolute_path)
        raise ToolSchemaError(f"parameters is no valid JSON Schema at /{where}: {error.message[:300]}") from None
    except RecursionError:
        raise ToolSchemaError("parameters is nested too deeply") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ToolSchemaError(f"parameters is no valid JSON Schema: {error}") from None
    kind = _with_nullable(draft) if nullable else draft
    # An explicit registry: the default one would fetch what it does not know.
    return kind(_spelled_out(plain), registry=Registry())


def _spelled_out(schema: Any) -> Any:
    """``schema`` with False as ``{"not": {}}`` where it stands for a part: the library gives False no path."""
    if not isinstance(schema, Mapping):
        return schema
    plain: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
            plain[keyword] = {name: _part(part) for name, part in value.items()}
        elif keyword in _LISTED_SCHEMAS and isinstance(value, list):
            plain[keyword] = [_part(part) for part in value]
        else:
            plain[keyword] = value if keyword in _DATA_KEYWORDS else _spelled_out(value)
    return plain


def _part(schema: Any) -> Any:
    return {"not": {}} if schema is False else _spelled_out(schema)


@cache
def _drafts() -> dict[str, Any]:
    import jsonschema as js

    kinds: list[Any] = [js.Draft3Validator, js.Draft4Validator, js.Draft6Validator, js.Draft7Validator]
    kinds += [js.Draft201909Validator, js.Draft202012Validator]
    return {_bare(kind.ID_OF(kind.META_SCHEMA)): kind for kind in kinds}


def _bare(uri: str) -> str:
    return uri.partition("://")[2].rstrip("#/")


def _draft(uri: Any) -> Any:
    import jsonschema

    return _drafts().get(_bare(uri) if isinstance(uri, str) else "", jsonschema.Draft202012Validator)


@cache
def _with_nullable(draft: Any) -> Any:
    """``draft`` with every keyword silent about a null where ``nullable: true`` stands beside it."""
    from jsonschema import validators

    extend: Any = validators.extend

    def patient(check: Any) -> Any:
        def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            if instance is None and schema.get("nullable") is True:
                return
            yield from check(validator, value, instance, schema) or ()

        return run

    return extend(draft, {name: patient(check) for name, check in draft.VALIDATORS.items()})


# ---- what the meta-schema does not say --------------------------------------------------------------------------


def _resource(schema: Any, draft: Any) -> Any:
    from referencing.jsonschema import specification_with

    return specification_with(draft.ID_OF(draft.META_SCHEMA)).create_resource(schema)


def _resolver(schema: JsonObject, draft: Any) -> Any:
    from referencing import Registry

    root: Any = _resource(schema, draft)
    return Registry().resolver_with_root(root)


def _check_parts(schema: Any, resolver: Any, draft: Any) -> bool:
    """Check references and patterns all the way down. True when ``nullable`` is used anywhere."""
    if not isinstance(schema, Mapping):
        return False
    if isinstance(schema.get("$id", schema.get("id")), str):
        resolver = resolver.in_subresource(_resource(schema, draft))
    _check_references(schema, resolver)
    patterns = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    for pattern in [*patterns, *schema.get("patternProperties", ())]:
        _check_pattern(pattern)
    # Every part is visited: no short circuit.
    return any([schema.get("nullable") is True, *[_check_parts(part, resolver, draft) for part in _parts(schema)]])


def _check_references(schema: JsonObject, resolver: Any) -> None:
    from referencing.exceptions import Unresolvable

    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        target = schema.get(keyword)
        if not isinstance(target, str):
            continue
        try:
            resolver.lookup(target)
        except Unresolvable:
            reason = "nothing is there" if target.startswith("#") else "references outside the schema are never fetched"
            raise ToolSchemaError(f'parameters refers to "{target[:200]}": {reason}') from None


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        raise ToolSchemaError(f'parameters has the pattern "{pattern[:200]}", which can\'t be used: {error}') from None


def _parts(schema: JsonObject) -> Iterator[Any]:
    """The schemas directly inside ``schema``; data such as an enum's values is not one."""
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
            yield from value.values()
        elif keyword in _DATA_KEYWORDS:
            continue
        elif isinstance(value, list):
            yield from value
        else:
            yield value


# ---- whole numbers ----------------------------------------------------------------------------------------------


def normalise(schema: JsonObject, args: JsonObject) -> JsonObject:
    """Valid ``args`` with 3.0 as 3 wherever the schema says integer; the same object when nothing changes."""
    try:
        return args if not _has_whole_float(args) else _normalised(schema, args, _compiled(schema))
    except RecursionError:
        return args


def _has_whole_float(value: Any) -> bool:
    kind = type(value)
    if kind is float:
        return bool(value.is_integer())
    if kind is dict:
        return any(map(_has_whole_float, value.values()))
    return kind is list and any(map(_has_whole_float, value))


def _normalised(schema: Any, value: Any, root: _Compiled) -> Any:
    if not isinstance(schema, Mapping):
        return value
    if isinstance(schema.get("$ref"), str):
        value = _normalised(_target(schema["$ref"], root), value, root)
    for part in schema.get("allOf", ()):
        value = _normalised(part, value, root)
    for keyword in ("anyOf", "oneOf"):
        for part in schema.get(keyword, ()):
            if root.validator.evolve(schema=part).is_valid(value):
                value = _normalised(part, value, root)
                break
    if isinstance(value, float):
        wanted = schema.get("type")
        names = wanted if isinstance(wanted, list) else [wanted]
        return int(value) if "integer" in names and "number" not in names and value.is_integer() else value
    if isinstance(value, Mapping):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        return {name: _normalised(known.get(name, others), item, root) for name, item in value.items()}
    if isinstance(value, list):
        first, rest = schema.get("prefixItems", ()), schema.get("items")
        return [
            _normalised(first[index] if index < len(first) else rest, item, root) for index, item in enumerate(value)
        ]
    return value


def _target(reference: str, root: _Compiled) -> Any:
    """The schema that a checked reference names."""
    resolver = _resolver(root.validator.schema, type(root.validator))
    return resolver.lookup(reference).contents
