"""Capturing what one piece of code writes and displays, and nothing else, while others go on writing.

Whose output it is goes by context: what runs in the context of a capture, in its tasks, and in the threads that were
started there is caught by the streams, the display publisher and the traceback writer themselves, which stay the
objects that they were. So a logging handler of an earlier cell is caught, and a cell that runs meanwhile is not.
Programs write to file descriptors: see ``descriptors``.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from itertools import islice
from typing import Any

from .descriptors import Descriptors
from .disclosure import disclose, is_table
from .pictures import Picture, picture_in
from .scrolls import Entry, Scroll, as_shown

ROWS = 20  # of a table as the last value
PICTURES = 50  # kept; more are counted
SHOWN = 4_000  # characters of one display or value

_ACTIVE: ContextVar[Capture | None] = ContextVar("kestrel_capture", default=None)
_CONTAINERS = (dict, list, tuple, set, frozenset)
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def active() -> Capture | None:
    """The capture that the running code belongs to, or None."""
    return _ACTIVE.get()


class Capture:
    """What one piece of code has given.

    ``value`` is the last value; ``failure`` the last error that IPython showed without ending the code.
    """

    def __init__(self, shell: Any) -> None:
        self.scroll = Scroll()
        self.pictures: list[Picture] = []
        self.drawn = 0
        self.value: Any = None
        self.value_text = ""  # of a table
        self.has_value = False
        self.quiet = False  # the code ends with a semicolon
        self.closed = False
        self.threads: list[threading.Thread] = []
        self._shell = shell
        self._pid = os.getpid()
        self._displays: dict[str, tuple[Entry, int | None]] = {}
        self._clear_next = False
        self.descriptors = Descriptors(self._hear)

    # ---- what comes in ----------------------------------------------------------------------------------------

    def write(self, name: str, text: str) -> None:
        """Text for stdout or stderr. A forked process hands it to its parent by the file descriptor."""
        if os.getpid() != self._pid:
            with suppress(OSError):
                os.write(2 if name == "stderr" else 1, text.encode("utf-8", "replace"))
            return
        self.descriptors.drain()  # what a program has written before this came before it
        self._add(name, text)

    def show(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str | None, update: bool) -> None:
        """A display, or the news of one."""
        place = self._displays.get(display_id or "")
        if update and place is not None:
            self._replace(place, data, metadata)
            return
        number, text = self._picture(data, metadata)
        entry = self._add("shown", text)
        if display_id is not None and entry is not None and len(self._displays) < 1_000:
            self._displays[display_id] = entry, number

    def shows(self, display_id: str | None) -> bool:
        """True for a display of this capture."""
        return display_id is not None and display_id in self._displays

    def give(self, value: Any) -> None:
        """A value that a cell would show: what ``sys.displayhook`` gets."""
        if value is None or self.quiet:
            return
        data, metadata = self._shell.display_formatter.format(value)
        self.value, self.value_text, self.has_value = value, "", True
        if not data and not metadata:
            return  # it has displayed itself
        if picture_in(data, metadata) is not None:
            self.show(data, metadata, None, False)
        elif is_table(value):
            self.value_text = disclose(value, "head", rows=ROWS).text
            self._add("shown", self.value_text)
        elif type(value) in _CONTAINERS and _is_plain(value):
            self._add("shown", disclose(value).text)
        else:
            self._add("shown", _text_of(data))

    def fail(self, text: str) -> None:
        """An error that was shown and did not end the code."""
        self._add("shown", text)

    def clear(self, wait: bool) -> None:
        """``clear_output``."""
        self._clear_next = wait
        if not wait:
            self._forget()

    def _add(self, kind: str, text: str) -> Entry | None:
        if kind == "shown":
            self.descriptors.drain()
        if self.closed:
            return None
        if self._clear_next:
            self._clear_next = False
            self._forget()
        return self.scroll.add(kind, text)

    def _hear(self, name: str, text: str) -> None:
        """What a program has written."""
        self._add(name, text)

    def _forget(self) -> None:
        self.scroll.clear()
        self.pictures.clear()
        self._displays.clear()
        self.drawn = 0

    def _picture(self, data: Mapping[str, Any], metadata: Mapping[str, Any]) -> tuple[int | None, str]:
        """The number of the image in a bundle, if it is one, and the text that stands for the bundle."""
        picture = picture_in(data, metadata)
        if picture is None:
            return None, _text_of(data)
        self.drawn += 1
        if len(self.pictures) < PICTURES and not self.closed:
            self.pictures.append(picture)
        return len(self.pictures) - 1, f"[figure {self.drawn}: {_text_of(data).strip('<>') or picture.type}]"

    def _replace(self, place: tuple[Entry, int | None], data: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        entry, number = place
        picture = picture_in(data, metadata)
        if picture is None or number is None:
            entry.text = _text_of(data)
        elif number < len(self.pictures):
            self.pictures[number] = picture


def _is_plain(value: Any, depth: int = 0) -> bool:
    """True for containers of plain values and tables, which are told as tables are told; other objects say themselves
    what they are."""
    if type(value) in _CONTAINERS:
        items = islice(value.values() if type(value) is dict else value, 1_000)
        return depth < 5 and all(_is_plain(item, depth + 1) for item in items)
    return type(value) in _PLAIN or is_table(value)


def _text_of(data: Mapping[str, Any]) -> str:
    """A bundle as text: the source of what is only said to be an object otherwise."""
    plain = data.get("text/plain")
    source = data.get("text/markdown") or data.get("text/latex")
    text = source if isinstance(source, str) and str(plain).startswith("<IPython.") else plain
    if not isinstance(text, str):
        text = source if isinstance(source, str) else f"[{', '.join(sorted(map(str, data)))}]"
    if len(text) > SHOWN:
        text = f"{text[:SHOWN]}\n[{len(text) - SHOWN:,} characters left out]"
    return as_shown(text)


# ---- the ways out -------------------------------------------------------------------------------------------------


@contextmanager
def capturing(capture: Capture, shell: Any) -> Iterator[None]:
    """Catch what this context gives until the end of the block; what comes later from its threads is dropped."""
    for name in ("stdout", "stderr"):
        _route(getattr(sys, name), "write", _Write, name)
        _route(getattr(sys, name), "close", _Close, name)
    _route(shell.display_pub, "publish", _Publish)
    _route(shell.display_pub, "clear_output", _Clear)
    token = _ACTIVE.set(capture)
    try:
        yield
    finally:
        capture.descriptors.close()
        capture.closed = True
        _ACTIVE.reset(token)


class _Route:
    """Stands before a method of one object: what belongs to a capture goes there."""

    def __init__(self, owner: Any, original: Callable[..., Any], *more: str) -> None:
        self._owner, self._original, self._more = owner, original, more


def _route(owner: Any, name: str, kind: type[_Route], *more: str) -> None:
    """Put a route before a method, once; it stays, as threads may go on writing when the code is over."""
    method = getattr(owner, name, None)
    if callable(method) and not isinstance(method, _Route):
        with suppress(AttributeError, TypeError):  # an object of the user's that takes no attribute is left alone
            setattr(owner, name, kind(owner, method, *more))


class _Write(_Route):
    def __call__(self, text: Any) -> Any:
        capture = _ACTIVE.get()
        if capture is None:
            return self._original(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text)}")
        capture.write(self._more[0], text)
        return len(text)


class _Close(_Route):
    def __call__(self) -> Any:
        return self._original() if _ACTIVE.get() is None else None


class _Publish(_Route):
    def __call__(
        self,
        data: Any,
        metadata: Any = None,
        *more: Any,
        transient: Any = None,
        update: bool = False,
        **options: Any,
    ) -> Any:
        capture = _ACTIVE.get()
        display_id = (transient or {}).get("display_id")
        if capture is None or (update and not capture.shows(display_id)):
            return self._original(data, metadata, *more, transient=transient, update=update, **options)
        capture.show(data, metadata or {}, display_id, update)
        return None


class _Clear(_Route):
    def __call__(self, wait: bool = False) -> Any:
        capture = _ACTIVE.get()
        return self._original(wait) if capture is None else capture.clear(wait)


def start_in_context(start: Callable[[threading.Thread], None], capture: Capture) -> Callable[[threading.Thread], None]:
    """``Thread.start`` that gives a thread the context it is started in, so that its output is known as the code's."""

    def started(thread: threading.Thread) -> None:
        if _ACTIVE.get() is capture:
            context, run = copy_context(), thread.run
            thread.run = lambda: context.run(run)  # type: ignore[method-assign]
            capture.threads.append(thread)
        start(thread)

    return started


def no_input(*_: Any, **__: Any) -> str:
    """In the place of ``input`` and ``getpass``."""
    raise builtins.EOFError("code of run_python can't ask the person anything: there is no standard input")
