"""The parameters of a Python function as JSON Schema, and as the pydantic model that converts what comes for them."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from ..protocol.errors import ToolSchemaError
from .tools import ToolContext

_SIMPLE = (str, int, float, bool)


def documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description of the function, and that of each parameter."""
    text = inspect.getdoc(function) if getattr(function, "__doc__", None) else None
    if not text:
        return "", {}
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:
        return text.strip(), {}
    parts = [parsed.short_description, parsed.long_description]
    found = {item.arg_name: item.description.strip() for item in parsed.params if item.description}
    return "\n\n".join(part.strip() for part in parts if part), found


def model_of(
    function: Callable[..., Any], title: str, docs: Mapping[str, str], names: Mapping[str, Any]
) -> tuple[Any, str | None]:
    """A pydantic model of the parameters, and the name of the one that wants the context."""
    from pydantic import ConfigDict, Field, create_model

    hints, context_name = _hints(function, title, names), None
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        _check_kind(parameter, title)
        hint = hints.get(name, inspect.Parameter.empty)
        if _is_context(hint):
            context_name = name
            continue
        optional = parameter.default is not inspect.Parameter.empty
        hint = _hint_or_guess(parameter, hint, title)
        about = _annotated_text(hint) or docs.get(name)
        more: dict[str, Any] = {"description": about} if about and not _has_description(hint) else {}
        default: Any = parameter.default if optional else ...
        # Numbered names, so that a parameter may be called as an attribute of models is, or begin with "_".
        field: Any = Field(default, alias=name, **more)
        fields[f"p{len(fields)}"] = (hint, field)
    try:
        return create_model(
            title, __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields
        ), context_name
    except Exception as error:
        raise _unusable(title, fields, error) from None


def _hints(function: Callable[..., Any], title: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations, resolved also when they are text and name what only the place of the definition knows."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isroutine(inner) and not isinstance(inner, type):
        inner = type(inner).__call__
    inner = inspect.unwrap(inner)
    free = getattr(getattr(inner, "__code__", None), "co_freevars", ())
    cells = getattr(inner, "__closure__", None) or ()
    closed = {}
    for name, cell in zip(free, cells, strict=False):
        try:
            closed[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    try:
        return typing.get_type_hints(inner, localns={**names, **closed}, include_extras=True)
    except NameError as error:
        raise ToolSchemaError(f'tool "{title}": {error} in its annotations; define it before the function') from None
    except Exception as error:
        raise ToolSchemaError(f'tool "{title}": its annotations can\'t be read: {error}') from None


def _check_kind(parameter: inspect.Parameter, title: str) -> None:
    where = f'tool "{title}": parameter {parameter}'
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        raise ToolSchemaError(f"{where} has no name for each value; take one list instead, such as values: list[str]")
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        raise ToolSchemaError(f"{where} has no fixed names; take one dict instead, such as options: dict[str, str]")
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise ToolSchemaError(f'{where} is positional-only, but arguments come by name; remove the "/"')
    if parameter.name in ("self", "cls") and parameter.annotation is inspect.Parameter.empty:
        raise ToolSchemaError(f"{where}: decorate a function, or write tool(instance.method)")


def _is_context(hint: Any) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType, typing.Annotated):
        return any(_is_context(part) for part in typing.get_args(hint))
    return isinstance(hint, type) and issubclass(hint, ToolContext)


def _hint_or_guess(parameter: inspect.Parameter, hint: Any, title: str) -> Any:
    if hint is not inspect.Parameter.empty:
        return hint
    if type(parameter.default) in _SIMPLE:
        return type(parameter.default)
    raise ToolSchemaError(
        f'tool "{title}": parameter {parameter.name} has no type; annotate it, such as {parameter.name}: str'
    )


def _annotated_text(hint: Any) -> str | None:
    """The text in ``Annotated[int, "how many"]``."""
    found = (item for item in getattr(hint, "__metadata__", ()) if isinstance(item, str))
    return next(found, None)


def _has_description(hint: Any) -> bool:
    return any(getattr(item, "description", None) for item in getattr(hint, "__metadata__", ()))


def schema_of(model: Any, title: str) -> dict[str, Any]:
    """The JSON Schema of a pydantic ``model``; ``title`` names the function in errors. Raises ToolSchemaError."""
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    try:
        schema = model.model_json_schema(by_alias=True, schema_generator=Quiet)
    except Exception as error:
        raise _unusable(title, {}, error) from None
    schema = _without_titles(schema)
    schema.pop("description", None)
    return {"type": "object", "properties": {}, **schema, "additionalProperties": False}


def _without_titles(schema: Any, *, names: bool = False) -> Any:
    """``schema`` without the titles that pydantic makes; ``names``: the keys are names and not keywords."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, value in schema.items():
        if key == "title" and not names:
            continue
        literal = not names and key in ("default", "const", "enum", "examples")
        kept[key] = value if literal else _without_titles(value, names=not names and key in ("properties", "$defs"))
    return kept


def _unusable(title: str, fields: Mapping[str, Any], error: Exception) -> ToolSchemaError:
    """Which parameter can't be described, and what to do."""
    reason = str(error).split("\n")[0].removesuffix(".")
    for hint, field in fields.values():
        try:
            _alone(hint)
        except Exception:
            shown = getattr(hint, "__name__", None) or str(hint)
            return ToolSchemaError(
                f'tool "{title}": parameter {field.alias}: {shown} can\'t be given as JSON; '
                "take text, numbers, lists, dicts, dataclasses or enums, such as a path or a name to look it up by"
            )
    return ToolSchemaError(f'tool "{title}": its parameters can\'t be described: {reason}')


def _alone(hint: Any) -> None:
    from pydantic import TypeAdapter

    TypeAdapter(hint).json_schema()
