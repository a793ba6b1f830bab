"""What a word of ``%kestrel`` is, and what such words give back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from IPython.core.error import UsageError as ShellUsageError

from ..protocol.errors import KestrelError
from .state import NotebookState


class Text:
    """A few lines of text that show as they are."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


@dataclass(frozen=True, slots=True)
class Command:
    """One word of ``%kestrel``: what follows it, what it does, at most how many words it takes.

    ``completes`` says what Tab offers for each word that follows: names of sources of ``offers``, joined by "|", or
    ``=word`` for the word itself. A switch, ``=--session``, and one with a value, ``=-m=model``, are no words in this
    count: they are offered from their place on.
    """

    usage: str
    help: str
    most: int
    work: Callable[[NotebookState, list[str]], Awaitable[Any]]
    completes: tuple[str, ...] = ()
    more: tuple[tuple[str, str], ...] = ()  # what ``help WORD`` says further: a form of it, and what that does
    raw: bool = False  # it splits what follows itself: that comes as one word


def table(rows: list[dict[str, Any]], columns: tuple[str, ...] = ()) -> Any:
    """A DataFrame of ``rows``; ``columns`` name those of an empty one."""
    from ..frames import to_frame

    return to_frame(rows if rows else {"columns": list(columns), "rows": []})


def shell_error(error: KestrelError, more: str = "") -> ShellUsageError:
    """The error as IPython shows a person's mistake: one line, whatever a plugin or a store has put into it."""
    return ShellUsageError(" ".join(f"{error}{more}".split()))
