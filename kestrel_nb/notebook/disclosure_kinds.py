"""What a value is, told without its content: type, shape, and reading it with care.

A user's object may raise, lie or never end wherever Python lets a class have its say. So types are read past their
metaclasses, containers past the methods of their subclasses, and everything else through ``read`` and ``attribute``.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from ..runtime.secrets import Masker, looks_like_key
from .static import members_of
from .visible import one_line

Kind = Literal["frame", "series", "index", "array", "columnar", "tensor", "lazy", ""]

NAME = 60  # characters of a type's or a column's name
_T = TypeVar("_T")

_name_of = cast("Callable[[type], Any]", type.__dict__["__name__"].__get__)
_module_of = cast("Callable[[type], Any]", type.__dict__["__module__"].__get__)
_mro_of = cast("Callable[[type], tuple[type, ...]]", type.__dict__["__mro__"].__get__)

_PANDAS: dict[str, Kind] = {"DataFrame": "frame", "Series": "series", "Index": "index", "ExtensionArray": "index"}
_COLUMNAR = (("polars", "DataFrame"), ("polars", "Series"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"))
_ARRAYS = (("pyarrow", "Array"), ("pyarrow", "ChunkedArray"))
_LAZY = (("polars", "LazyFrame"), ("dask", ""), ("pyspark", ""), ("ibis", ""), ("duckdb", ""))
_FRAMES = ("DataFrame", "LazyFrame", "Dataset", "DataArray", "Tensor")  # of any other library
_TENSORS = ("torch", "tensorflow", "jax", "jaxlib", "xarray", "scipy", "pyarrow", "cupy", "zarr", "h5py")
_MAPPINGS: tuple[dict[Any, Any], ...] = ({}, OrderedDict())
VIEWS = tuple(type(view) for kept in _MAPPINGS for view in (kept.keys(), kept.values(), kept.items()))
SIZED: tuple[type, ...] = (list, tuple, dict, set, frozenset, deque, str, bytes, bytearray, array, range, *VIEWS)
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+| id='\d{6,}'|0x[0-9A-Fa-f]{8,}")
_COUNTS = re.compile(r"tokens$", re.IGNORECASE)  # max_tokens, n_tokens: a number there is no secret


def read(work: Callable[[], _T], otherwise: _T) -> _T:
    """What ``work`` gives, or ``otherwise`` when it raises anything but an interrupt. ``work`` awaits nothing, so a
    CancelledError is none of the task's."""
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return otherwise


def attribute(value: Any, name: str, otherwise: Any = None) -> Any:
    """An attribute, or ``otherwise`` when there is none or it can't be read."""
    return read(lambda: getattr(value, name), otherwise)


def is_a(value: Any, *bases: type) -> bool:
    """``isinstance`` that no ``__class__`` of the value can mislead."""
    return any(base is wanted for base in _mro_of(type(value)) for wanted in bases)


def exactly(value: Any, *kinds: type) -> bool:
    """True when the class of ``value`` is one of ``kinds`` itself; no ``==`` of a metaclass is asked."""
    return any(type(value) is kind for kind in kinds)


def type_name(value: Any) -> str:
    """The name of the type: ``DataFrame``, ``int``, ``ndarray``."""
    return one_line(str(_name_of(type(value))), NAME)


def kind_of(value: Any) -> Kind:
    """Which library's table or array it is, known by the modules of its classes; "" for everything else."""
    for base in _mro_of(type(value)):
        module, name = read(lambda base=base: str(_module_of(base)), ""), str(_name_of(base))  # type: ignore[misc]
        library = module.partition(".")[0]
        if library == "pandas" and name in _PANDAS:
            return _PANDAS[name]
        if library == "numpy" and name == "ndarray":
            return "array"
        if (library, name) in _COLUMNAR:
            return "columnar"
        if (library, name) in _LAZY or (library, "") in _LAZY:
            return "lazy"
        if (library, name) in _ARRAYS:
            return "tensor"
        if library in _TENSORS and members_of(base).keys() & {"shape", "__len__"} and _has(value, "shape", "dtype"):
            return "tensor"
    root = read(lambda: str(_module_of(type(value))), "").partition(".")[0]
    return "lazy" if str(_name_of(type(value))) in _FRAMES and root not in ("__main__", "builtins") else ""


def _has(value: Any, *names: str) -> bool:
    return all(attribute(value, name) is not None for name in names)


def sizes_of(value: Any) -> tuple[int, ...] | None:
    """Rows, columns, ... of a table or an array; None for everything else and where it isn't told."""
    if kind_of(value) in ("", "lazy"):
        return None
    shape = attribute(value, "shape")
    sizes = read(lambda: tuple(int(size) for size in shape[:8]), None)
    return sizes if sizes is not None else read(lambda: (len(value),), None)


def length_of(value: Any) -> int | None:
    """The length of a built-in container or text, as the built-in type counts it; None for everything else."""
    for base in SIZED:
        if is_a(value, base):
            return read(lambda base=base: int(base.__len__(value)), None)  # type: ignore[misc]
    if type(value) is MappingProxyType:
        return read(lambda: len(value), None)
    return None


def shape_of(value: Any) -> str:
    """``120 × 4`` of a table or an array, the length of a container or text, "" of anything else."""
    sizes = sizes_of(value)
    if sizes is not None:
        return " × ".join(f"{size:,}" for size in sizes)
    length = length_of(value)
    return "" if length is None else f"{length:,}"


def brief(value: Any) -> str:
    """Type and shape in one line, never a value: ``DataFrame 120 × 4``, ``list of 3``, ``str of 5 characters``."""
    name, shape = type_name(value), shape_of(value)
    if kind_of(value):
        return f"{name} {shape}".rstrip()
    unit = " characters" if is_a(value, str) else " bytes" if is_a(value, bytes, bytearray) else ""
    return f"{name} of {shape}{unit.removesuffix('s') if shape == '1' else unit}" if shape else name


def name_text(name: Any, limit: int = NAME) -> str:
    """The name of a column, an index or a key on one line, masked, then shortened."""
    text = str.__str__(name) if is_a(name, str) else repr_of(name)
    return one_line(Masker.from_environment().mask(text), limit)


def repr_of(value: Any) -> str:
    """What the object says of itself, without addresses; that it can't be shown when it raises."""
    return _said(value, read(lambda: str.__str__(repr(value)), None))


def str_of(value: Any) -> str:
    """``repr_of`` by ``str``, for what says itself better that way."""
    return _said(value, read(lambda: str.__str__(str(value)), None))


def _said(value: Any, text: str | None) -> str:
    if text is None:
        return f"<{type_name(value)}: its repr raises an error>"
    return _ADDRESS.sub(lambda found: "" if found[0].startswith(" ") else "0x…", text)


def hides(name: Any, value: Any = "") -> bool:
    """True when a value under that name must not be said, as the name looks like one of a key."""
    if value is None or is_a(value, bool):
        return False
    return any(_says_key(word) and not (is_a(value, int, float) and _COUNTS.search(word)) for word in _words_of(name))


def _says_key(word: str) -> bool:
    return looks_like_key(word) or word.lower() == "pwd"  # in the environment alone that is a folder


def _words_of(name: Any) -> list[str]:
    """The texts in a name: keys of several parts, members of an Enum and bytes name things as well."""
    if is_a(name, str):
        return [str.__str__(name)]
    if is_a(name, bytes):
        return [bytes.decode(name, "latin-1")]
    if is_a(name, tuple):
        return [word for part in tuple.__iter__(name) if not is_a(part, tuple) for word in _words_of(part)]
    return _words_of(attribute(name, "_name_")) if is_a(name, Enum) else []


def dtype_text(dtype: Any) -> str:
    """A dtype without the values that some hold: categories, the fill value of a sparse one."""
    name = str(_name_of(type(dtype)))
    if name == "CategoricalDtype":
        count = read(lambda: f" ({len(dtype.categories):,})", "")
        return f"category{count}"
    if name == "SparseDtype":
        return f"Sparse[{dtype_text(attribute(dtype, 'subtype'))}]"
    text = read(lambda: str(dtype), name)
    if re.search(r"categor|enum", text, re.IGNORECASE):
        count = read(lambda: f" ({len(dtype.categories):,})", "")
        return one_line(text.partition("(")[0], NAME) + count
    return one_line(text, NAME * 2)
