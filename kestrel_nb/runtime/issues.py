"""What is wrong with arguments, in words that let a model correct itself.

Works on the errors of the validator by their attributes (``validator``, ``validator_value``, ``instance``,
``schema``, ``absolute_path``, ``context``), so it needs no import of the library behind them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

MAX_ISSUES = 40  # enough to correct a call; a wrong array of thousands must not fill the context
MAX_OPTIONS = 40
MAX_VALUE_CHARS = 80
_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")

_TYPE_WORDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonValidationIssue:
    """One problem. ``path`` is like ``tags[1]`` or ``a.b``, empty for the arguments as a whole."""

    path: str
    message: str


def format_validation_issues(issues: Iterable[JsonValidationIssue]) -> str:
    """All issues in one line: ``path: must be ...``, joined with ``; ``."""
    every = list(issues)
    texts = [f"{issue.path}: {issue.message}" if issue.path else f"the arguments {issue.message}" for issue in every]
    if len(texts) > MAX_ISSUES:
        texts = [*texts[:MAX_ISSUES], f"and {len(texts) - MAX_ISSUES} more"]
    return "; ".join(texts)


def issues_of(errors: Iterable[Any]) -> list[JsonValidationIssue]:
    """The issues behind the validator's ``errors``, each once, in their order."""
    found: dict[JsonValidationIssue, None] = {}
    for error in errors:
        for issue in _issues(error):
            found.setdefault(issue)
    return list(found)


def path_text(steps: Iterable[Any]) -> str:
    """``("a", "b", 1)`` as ``a.b[1]``; keys that are no plain word are quoted in brackets."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(str(step)):
            text += f".{step}" if text else str(step)
        else:
            text += f"[{value_text(str(step))}]"
    return text


def value_text(value: Any) -> str:
    """``value`` as short JSON text."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"


def _issues(error: Any) -> Iterator[JsonValidationIssue]:
    steps = list(error.absolute_path)
    if error.validator in ("anyOf", "oneOf"):
        yield from _alternatives(error, steps)
    elif _is_about_a_name(error):
        message = f"has a name that is not allowed: {value_text(error.instance)}"
        yield JsonValidationIssue(path=path_text(steps), message=message)
    elif error.validator in _NAMING:
        for name, message in _NAMING[error.validator](error):
            yield JsonValidationIssue(path=path_text([*steps, name]), message=message)
    else:
        yield JsonValidationIssue(path=path_text(steps), message=_message(error))


def _is_about_a_name(error: Any) -> bool:
    """True for what ``propertyNames`` says, unless that is the name of a property."""
    steps = ["", *error.absolute_schema_path]
    return any(step == "propertyNames" and before not in _HOLDERS for before, step in pairwise(steps))


_HOLDERS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))


# ---- problems that name another property than the one they are found at -----------------------------------------


def _missing(error: Any) -> Iterator[tuple[str, str]]:
    for name in error.validator_value if isinstance(error.validator_value, list) else ():
        if name not in error.instance:
            yield name, "is required"


def _unexpected(error: Any) -> Iterator[tuple[str, str]]:
    known = error.schema.get("properties", {})
    patterns = error.schema.get("patternProperties", {})
    for name in error.instance:
        if name not in known and not any(re.search(pattern, name) for pattern in patterns):
            yield name, "is not allowed"


def _dependent(error: Any) -> Iterator[tuple[str, str]]:
    for name, needed in error.validator_value.items():
        if name in error.instance:
            for other in [needed] if isinstance(needed, str) else needed:
                if other not in error.instance:
                    yield other, f"is required when {name} is given"


_NAMING: dict[str, Callable[[Any], Iterator[tuple[str, str]]]] = {
    "required": _missing,
    "additionalProperties": _unexpected,
    "dependentRequired": _dependent,
    "dependencies": _dependent,
}


# ---- problems of one value --------------------------------------------------------------------------------------


def _message(error: Any) -> str:
    wanted = error.validator_value
    if error.validator is None:  # the schema is False
        return "is not allowed"
    writer = _WORDS.get(error.validator)
    if writer is not None:
        return writer(wanted, error.schema)
    return f"does not satisfy {error.validator} of the tool's schema"


def _types(wanted: Any, schema: Any) -> str:
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    if not names:
        return "is not allowed"  # of no type at all
    return "must be " + _or(_TYPE_WORDS.get(str(name), str(name)) for name in names)


def _or(words: Iterable[str]) -> str:
    every = list(dict.fromkeys(words))
    return every[0] if len(every) == 1 else ", ".join(every[:-1]) + " or " + every[-1]


def _options(wanted: Any, schema: Any) -> str:
    if not wanted:
        return "has no allowed value"
    shown = [value_text(option) for option in wanted[:MAX_OPTIONS]]
    return "must be one of " + ", ".join(shown) + (", …" if len(wanted) > MAX_OPTIONS else "")


def _count(words: str, one: str, many: str) -> Callable[[Any, Any], str]:
    return lambda wanted, schema: f"must have {words} {wanted} {one if wanted == 1 else many}"


def _minimum(wanted: Any, schema: Mapping[str, Any]) -> str:
    return f"must be {'greater than' if schema.get('exclusiveMinimum') is True else 'at least'} {wanted}"


def _maximum(wanted: Any, schema: Mapping[str, Any]) -> str:
    return f"must be {'less than' if schema.get('exclusiveMaximum') is True else 'at most'} {wanted}"


_WORDS: dict[str, Callable[[Any, Any], str]] = {
    "type": _types,
    "enum": _options,
    "const": lambda wanted, schema: f"must be {value_text(wanted)}",
    "minimum": _minimum,
    "maximum": _maximum,
    "exclusiveMinimum": lambda wanted, schema: f"must be greater than {wanted}",
    "exclusiveMaximum": lambda wanted, schema: f"must be less than {wanted}",
    "multipleOf": lambda wanted, schema: f"must be a multiple of {wanted}",
    "divisibleBy": lambda wanted, schema: f"must be a multiple of {wanted}",
    "pattern": lambda wanted, schema: f"must match the pattern {value_text(wanted)}",
    "minLength": _count("at least", "character", "characters"),
    "maxLength": _count("at most", "character", "characters"),
    "minItems": _count("at least", "item", "items"),
    "maxItems": _count("at most", "item", "items"),
    "minProperties": _count("at least", "property", "properties"),
    "maxProperties": _count("at most", "property", "properties"),
    "uniqueItems": lambda wanted, schema: "must not hold the same item twice",
    "items": lambda wanted, schema: f"must have at most {len(schema.get('prefixItems', ()))} items",
    "additionalItems": lambda wanted, schema: "has more items than are allowed",
    "unevaluatedItems": lambda wanted, schema: "has items that are not allowed",
    "unevaluatedProperties": lambda wanted, schema: "has properties that are not allowed",
    "contains": lambda wanted, schema: "must contain fitting items, as many as the tool's schema says",
    "minContains": lambda wanted, schema: f"must contain at least {wanted} fitting items",
    "maxContains": lambda wanted, schema: f"must contain at most {wanted} fitting items",
    "not": lambda wanted, schema: "has a form that is not allowed" if wanted else "is not allowed",
}


# ---- anyOf and oneOf --------------------------------------------------------------------------------------------


def _alternatives(error: Any, steps: list[Any]) -> Iterator[JsonValidationIssue]:
    """Say what the nearest form lacks when there is just one; otherwise what each form wants."""
    here = path_text(steps)
    branches: dict[Any, list[Any]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    if not branches:
        yield JsonValidationIssue(path=here, message="must fit exactly one of the allowed forms")
        return
    wrong_kind = [errors for errors in branches.values() if _is_wrong_kind(errors)]
    if len(wrong_kind) == len(branches):
        words = [word for errors in wrong_kind for word in _kind_words(errors[0])]
        yield JsonValidationIssue(path=here, message="must be " + _or(words) if words else "has no allowed value")
        return
    near = [errors for errors in branches.values() if not _is_wrong_kind(errors)]
    if len(near) == 1:
        yield from issues_of(near[0])
        return
    forms = [format_validation_issues(issues_of(errors)) for errors in near[:3]]
    yield JsonValidationIssue(path=here, message="must fit one of the allowed forms: " + " | ".join(forms))


def _is_wrong_kind(errors: list[Any]) -> bool:
    """True when the form fails on the value itself: another type, or not among its constants."""
    return any(e.validator in ("type", "const", "enum") and not e.relative_path for e in errors)


def _kind_words(error: Any) -> list[str]:
    if error.validator == "type":
        return [_types(error.validator_value, error.schema).removeprefix("must be ")]
    values = [error.validator_value] if error.validator == "const" else error.validator_value
    return [value_text(value) for value in values[:MAX_OPTIONS]]
