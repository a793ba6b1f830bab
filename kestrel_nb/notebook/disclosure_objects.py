"""Objects that are more than data: records with fields, code, modules, and what looking at would use up."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import types
from typing import Any

from ..runtime.secrets import MASK
from .disclosure_holdings import kept_in
from .disclosure_kinds import attribute, dtype_text, hides, is_a, name_text, read, type_name
from .static import classes_of
from .visible import one_line

_FIELDS = 30  # of an object that is told by them instead of its own words
_FUNCTIONS = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
)


def fields_of(value: Any) -> list[tuple[str, Any]] | None:
    """The fields of a record: a dataclass, a model, or an object that has no words of its own for itself."""
    kind = type(value)
    if not is_record(value):
        return None
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.repr]
        return [(name, attribute(value, name, _Unreadable())) for name in names]
    own = read(lambda: object.__getattribute__(value, "__dict__"), None)
    if type(own) is not dict:
        return []
    return [(name, item) for name, item in itertools.islice(own.items(), 200) if is_a(name, str)]


def is_record(value: Any) -> bool:
    kind = type(value)
    says = attribute(kind, "__repr__")
    if dataclasses.is_dataclass(kind):
        return attribute(says, "__wrapped__") is not None  # the repr that dataclass makes, not one of the class
    return says is object.__repr__ or kind is types.SimpleNamespace or bool(attribute(kind, "__pydantic_fields__"))


def public_fields(value: Any) -> list[tuple[str, Any]]:
    """What a person would name of an object; nothing of one that has very many members."""
    fields = [(name, item) for name, item in kept_in(value) if not name.startswith("_")]
    return fields if len(fields) <= _FIELDS else []


def is_a_row(value: Any) -> bool:
    """True for a row of a structured array."""
    names = read(lambda: value.dtype.names, None) if root_of(value) == "numpy" else None
    return is_a(names, tuple)


def without_hidden(item: Any, dtype: Any) -> Any:
    """An item of a structured array as Python values, ``***`` in each field whose name looks like a key's."""
    if is_a(item, list):
        return [without_hidden(part, dtype) for part in item]
    if not dtype.names or not is_a(item, tuple):
        return item
    pairs = zip(dtype.names, item, strict=True)
    return tuple(MASK if hides(name, cell) else without_hidden(cell, dtype[name].base) for name, cell in pairs)


def root_of(value: Any) -> str:
    """The library or module that the type comes from."""
    return str(read(lambda: str(type.__dict__["__module__"].__get__(type(value))), "")).partition(".")[0]


_OURS = __name__.partition(".")[0]


class _Unreadable:
    def __repr__(self) -> str:
        return "<can't be read>"


def told_of(value: Any) -> str | None:
    """What is said of code, modules and things that would be used up by looking; they hold no value to show."""
    if is_a(value, type):
        return f"class {type.__dict__['__name__'].__get__(value)}{_signature(value)}{_first_line(value)}"
    if is_a(value, *_FUNCTIONS):
        name = attribute(value, "__qualname__") or attribute(value, "__name__") or "function"
        return f"{name_text(name)}{_signature(value)}{_first_line(value)}"
    if is_a(value, types.ModuleType):
        version = attribute(value, "__version__")
        named = f" {name_text(version)}" if is_a(version, str) else ""
        return f"module {name_text(attribute(value, '__name__', '?'))}{named}"
    if {"ExtensionDtype", "dtype"} & {type.__dict__["__name__"].__get__(base) for base in classes_of(value)}:
        return dtype_text(value)  # some hold values
    if is_a(value, types.CoroutineType, types.AsyncGeneratorType):
        return f"<{type_name(value)}, not awaited>"
    if any("__next__" in base.__dict__ for base in type.__dict__["__mro__"].__get__(type(value))):
        return f"<{type_name(value)}, not consumed>"
    if root_of(value) == _OURS and attribute(type(value), "__repr__") is object.__repr__:
        return f"<{type_name(value)}>"  # an application or a session: what it is made of says nothing
    return None


def _signature(value: Any) -> str:
    """The parameters; a default is data, so it stands as ``…``."""
    signature = read(lambda: inspect.signature(value), None)
    if signature is None:
        return "(…)"
    said = []
    for parameter in itertools.islice(signature.parameters.values(), 40):
        stars = {parameter.VAR_POSITIONAL.value: "*", parameter.VAR_KEYWORD.value: "**"}.get(parameter.kind.value, "")
        said.append(stars + parameter.name + ("" if parameter.default is parameter.empty else "=…"))
    return f"({', '.join(said)})"


def _first_line(value: Any) -> str:
    doc = attribute(value, "__doc__")
    lines = str.__str__(doc).strip().splitlines() if is_a(doc, str) else []
    if not lines or (is_a(value, type) and dataclasses.is_dataclass(value) and lines[0].endswith(")")):
        return ""  # the text that dataclass makes holds the defaults
    return f": {one_line(lines[0], 200)}"
