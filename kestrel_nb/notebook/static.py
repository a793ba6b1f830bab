"""What can be said of an object without running code of its own: no property, no ``__getattr__``, no ``__dir__``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

LIBRARIES = ("pandas", "polars")  # their own attributes are safe to read, whatever the object's class adds
_METHODS = frozenset(
    (
        "function", "method_descriptor", "classmethod_descriptor", "wrapper_descriptor", "builtin_function_or_method",
        "method", "classmethod", "staticmethod", "cython_function_or_method", "partialmethod", "singledispatchmethod",
        "type",
    )
)  # fmt: skip


def classes_of(value: Any) -> tuple[type, ...]:
    """The class of ``value`` and its bases, in order."""
    order: tuple[type, ...] = type.__dict__["__mro__"].__get__(type(value))
    return order


def members_of(kind: type) -> Mapping[str, Any]:
    """What the class ``kind`` itself defines."""
    members: Mapping[str, Any] = type.__dict__["__dict__"].__get__(kind)
    return members


def type_word(value: Any) -> str:
    """The name of the class of ``value``."""
    return str(type.__dict__["__name__"].__get__(type(value)))


def instance_members(value: Any) -> dict[str, Any]:
    """What is kept in the object itself."""
    for kind in classes_of(value):
        found = members_of(kind).get("__dict__")
        if found is not None:  # anything but the real one is code of the user's
            kept = found.__get__(value) if type(found) is GetSetDescriptorType else None
            return dict(kept) if type(kept) is dict else {}
    return {}


def static_member(value: Any, name: str) -> Any:
    """The attribute as it is kept, in the object or its class; a property is itself. None when there is none."""
    own = instance_members(value)
    if name in own:
        return own[name]
    return next((members_of(kind)[name] for kind in classes_of(value) if name in members_of(kind)), None)


def member_value(value: Any, name: str) -> Any:
    """The value of the attribute, or None when only code could say it."""
    found = static_member(value, name)
    if type(found) is MemberDescriptorType:  # a slot
        try:
            return found.__get__(value)
        except AttributeError:
            return None
    return None if is_descriptor(found) and name not in instance_members(value) else found


def is_descriptor(member: Any) -> bool:
    """True for what a class keeps to compute an attribute, such as a property."""
    return any("__get__" in members_of(kind) for kind in classes_of(member))


def public_names(value: Any) -> Iterator[str]:
    """The attributes that hold something: no methods, no name that begins with _."""
    names: dict[str, bool] = {}
    for name, member in instance_members(value).items():
        if type(name) is str:
            names.setdefault(name, type_word(member) not in _METHODS)
    for kind in classes_of(value):
        for name, member in members_of(kind).items():
            names.setdefault(name, type_word(member) not in _METHODS)
    return (name for name, holds in sorted(names.items()) if holds and name.isidentifier() and not name.startswith("_"))


def from_library(value: Any, name: str) -> Any:
    """The attribute when pandas or polars defines it for this object, else None."""
    for kind in classes_of(value):
        if name in members_of(kind):
            home = str(members_of(kind).get("__module__")).partition(".")[0]
            return object.__getattribute__(value, name) if home in LIBRARIES else None
    return None
