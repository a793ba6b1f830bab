"""The public face: every promised name is there, documented, and found by the usual tools."""

import importlib
import importlib.metadata
import inspect
import pkgutil
from types import ModuleType

import pytest

import kestrel_nb
import kestrel_nb.protocol
import kestrel_nb.runtime


def modules_under(package: ModuleType) -> list[str]:
    return [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]


CONTRACTS = modules_under(kestrel_nb.protocol) + modules_under(kestrel_nb.runtime)


@pytest.mark.parametrize("name", kestrel_nb.__all__)
def test_every_promised_name_resolves(name: str) -> None:
    assert getattr(kestrel_nb, name) is not None
    assert name in dir(kestrel_nb)


def test_the_promised_names_are_sorted_and_unique() -> None:
    by_kind = sorted(set(kestrel_nb.__all__), key=lambda name: (not name.isupper(), name))  # constants first
    assert list(kestrel_nb.__all__) == by_kind


@pytest.mark.parametrize("name", [name for name in kestrel_nb.__all__ if not name.startswith("__")])
def test_every_promised_name_is_documented(name: str) -> None:
    value = getattr(kestrel_nb, name)
    assert inspect.getdoc(value), name


def test_the_version_is_the_installed_one() -> None:
    assert kestrel_nb.__version__ == importlib.metadata.version("kestrel-nb")


@pytest.mark.parametrize("name", CONTRACTS)
def test_public_callables_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    bare = [
        f"{name}.{attribute}"
        for attribute, value in vars(module).items()
        if not attribute.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == name
        and not (value.__doc__ or "").strip()
    ]
    assert bare == []


@pytest.mark.parametrize("name", CONTRACTS)
def test_dataclasses_do_not_pass_with_a_generated_docstring(name: str) -> None:
    module = importlib.import_module(name)
    generated = [
        f"{name}.{attribute}"
        for attribute, value in vars(module).items()
        if inspect.isclass(value)
        and value.__module__ == name
        and not attribute.startswith("_")
        and (value.__doc__ or "").startswith(f"{attribute}(")
    ]
    assert generated == []
