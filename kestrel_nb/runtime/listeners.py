"""Listeners: synchronous, cheap, and never able to break what they listen to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from ..protocol.events import SessionEvent

E = TypeVar("E")
EventListener = Callable[[SessionEvent], None]


class Listeners(Generic[E]):
    """A list of callbacks. One that raises is logged and the others still hear."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._listeners: dict[object, Callable[[E], None]] = {}

    def subscribe(self, listener: Callable[[E], None]) -> Callable[[], None]:
        """Add ``listener``. Returns a disposer, which may be called more than once."""
        key = object()  # the same listener may be there twice, and each disposer ends its own subscription
        self._listeners[key] = listener

        def dispose() -> None:
            self._listeners.pop(key, None)

        return dispose

    def publish(self, event: E) -> None:
        """Hand ``event`` to every listener, in the order of subscription."""
        for listener in tuple(self._listeners.values()):
            try:
                listener(event)
            except KeyboardInterrupt:
                raise
            except BaseException:  # a CancelledError or SystemExit from here would end the run
                self._logger.exception("a listener failed on %s", type(event).__name__)
