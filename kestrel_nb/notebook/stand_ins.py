"""What code finds in the place of some parts of the process while it is on the stack: see ``stepping``."""

from __future__ import annotations

import builtins
import getpass
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from IPython.core.error import UsageError as ShellUsageError

from .capturing import Capture, no_input, start_in_context
from .stepping import WHAT_IS_THERE, Attribute, Item, Method, Place

_KEPT_OF_SYS = ("last_type", "last_value", "last_traceback", "last_exc")
_KEPT_OF_SHELL = ("execution_count", "last_execution_result", "last_execution_succeeded", "_last_traceback")
_KEPT_OF_HOOK = ("exec_result", "_", "__", "___")
_KEPT_OF_USER = ("_", "__", "___")


class StandIns:
    """The shell as the code finds it: nothing that it shows, asks or ends goes past ``capture``.

    ``say_error`` gives the text of an error. ``asked_to_end`` is True once the code has tried to end the kernel.
    """

    def __init__(self, shell: Any, capture: Capture, say_error: Callable[[BaseException], str]) -> None:
        self.asked_to_end = False
        self._shell, self._capture, self._say_error = shell, capture, say_error

    def places(self) -> list[tuple[Place, Any, str]]:
        """The places, what the code finds there, and a name for what is worth telling when the code replaces it."""
        shell, capture = self._shell, self._capture
        hook, extensions = shell.displayhook, shell.extension_manager
        return [
            (Attribute(sys, "stdout"), sys.stdout, "sys.stdout"),
            (Attribute(sys, "stderr"), sys.stderr, "sys.stderr"),
            (Attribute(sys, "displayhook"), capture.give, "sys.displayhook"),
            (Attribute(sys, "excepthook"), shell.excepthook, ""),
            (Attribute(sys, "breakpointhook"), no_input, ""),
            (Attribute(builtins, "input"), no_input, ""),
            (Attribute(getpass, "getpass"), no_input, ""),
            (Attribute(signal, "signal"), _keeping_interrupt(signal.signal), ""),
            (Attribute(threading.Thread, "start"), start_in_context(threading.Thread.start, capture), ""),
            (Method(shell, "ask_exit"), self._refuse_end, ""),
            (Method(shell, "_showtraceback"), self._show_error, ""),
            (Method(shell.payload_manager, "write_payload"), self._take_payload, ""),
            (Method(extensions, "unload_extension"), self._guarded("unload"), ""),
            (Method(extensions, "reload_extension"), self._guarded("reload"), ""),
            *((Attribute(sys, name), WHAT_IS_THERE, "") for name in _KEPT_OF_SYS),
            *((Attribute(shell, name), WHAT_IS_THERE, "") for name in _KEPT_OF_SHELL),
            *((Attribute(hook, name), WHAT_IS_THERE, "") for name in _KEPT_OF_HOOK),
            *((Item(shell.user_ns, name), WHAT_IS_THERE, "") for name in _KEPT_OF_USER),
        ]

    def _show_error(self, kind: type[BaseException], error: BaseException, lines: Sequence[str]) -> None:
        """An error that a magic or a formatter has caught."""
        self._capture.fail(self._say_error(error))

    def _refuse_end(self) -> None:
        """Behind ``exit`` and ``quit``."""
        self.asked_to_end = True
        raise SystemExit(0)

    def _take_payload(self, payload: Any, *_: Any, **__: Any) -> None:
        """A page of help is output; the text of a next cell is nobody's."""
        data = payload.get("data") if isinstance(payload, dict) else None
        if isinstance(data, dict):
            self._capture.show(data, {}, None, False)

    def _guarded(self, what: str) -> Callable[[str], Any]:
        """``unload_extension`` or ``reload_extension``, but for the extension that the run belongs to."""
        manager = self._shell.extension_manager
        original = getattr(type(manager), f"{what}_extension")

        def guarded(name: str) -> Any:
            if name.partition(".")[0] == "kestrel_nb":
                raise ShellUsageError(f"kestrel_nb can't be {what}ed by code that it runs")
            return original(manager, name)

        return guarded


def _keeping_interrupt(original: Callable[..., Any]) -> Callable[[int, Any], Any]:
    """``signal.signal`` by which no code can make itself deaf to Interrupt and to the time limit."""

    def set_handler(number: int, handler: Any) -> Any:
        return signal.default_int_handler if number == signal.SIGINT else original(number, handler)

    return set_handler
