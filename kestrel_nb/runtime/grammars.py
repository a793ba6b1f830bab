"""Loading the schema library without a grammar that it does not need here.

Where ``rfc3987_syntax`` is installed, as it is beside a Jupyter server, ``jsonschema`` imports it for one check of
``format``. That import builds the parsers of a whole grammar, two to three seconds of computing in which an event loop
stands still, and ``format`` is not enforced here. The check stays for everybody else in the process: it builds its
parsers when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_NAME = "rfc3987_syntax"


class _Later(ModuleType):
    """Stands for the module until something of it is used."""

    def is_valid_syntax(self, term: str, value: str) -> Any:
        """The one function that ``jsonschema`` takes by name when it is imported."""
        return _real(self).is_valid_syntax(term, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system asks for
            raise AttributeError(name)
        return getattr(_real(self), name)


@contextmanager
def grammars_later() -> Iterator[None]:
    """Within this the module is not really imported; behind it, it is as if nothing had been."""
    if "jsonschema" in sys.modules or _NAME in sys.modules or find_spec(_NAME) is None:
        yield
        return
    sys.modules[_NAME] = stand_in = _Later(_NAME)
    try:
        yield
    finally:
        _take_away(stand_in)


def _take_away(stand_in: ModuleType) -> None:
    if sys.modules.get(_NAME) is stand_in:
        del sys.modules[_NAME]


def _real(stand_in: ModuleType) -> ModuleType:
    _take_away(stand_in)
    return importlib.import_module(_NAME)
