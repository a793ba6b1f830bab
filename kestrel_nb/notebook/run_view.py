"""The live view of one run: an anywidget that paints events and hands answers over. It decides nothing.

Text goes out as coalesced custom messages that hold only what is new; other changes as the fields that changed. The
synced ``page`` is set at checkpoints: when a browser draws the view, when an approval is asked or answered, at the
end.
Everything here runs on the loop's thread but ``_receive``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from ..protocol import events as ev
from . import view_state
from .card_form import edited
from .painter import Painter
from .sheet import live_script, live_sheet
from .view_state import Schemas, ViewState
from .visible import visible
from .wire import page_state

OnAnswer = Callable[[str, dict[str, Any]], "str | None"]
SAVED_LIVE = "kestrel run: still going when this was saved; run the cell again, or look at %kestrel inbox"
_CHECKPOINTS = (ev.ApprovalRequested, ev.ApprovalResolved)


class RunView(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget has no types here
    """Create it in a running loop; ``apply`` each event of the run; ``finish`` with the record.

    ``on_answer(id, answer)`` gets ``approved`` (a bool) and perhaps ``reason``, ``arguments`` and ``remember``; it
    gives back None when the answer was taken, else a sentence that the card shows. ``on_stop()`` cancels the run.
    ``ready`` is set when a browser has drawn the view, ``views`` counts how often.
    """

    _esm = live_script()
    _css = live_sheet()
    page = traitlets.Dict().tag(sync=True)  # the state as the page draws it
    final = traitlets.Unicode("").tag(sync=True)  # the record, for a page that cannot take the display update
    key = traitlets.Unicode("").tag(sync=True)  # under which a page counts its mounted views

    def __init__(
        self,
        *,
        model: str,
        stable: bool,
        on_answer: OnAnswer,
        on_stop: Callable[[], None],
        workspace: str = "",
        handle: str = "_",
        schemas: Schemas | None = None,
        sent: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        self._state = view_state.initial(model=model, stable=stable, workspace=workspace, handle=handle, sent=sent)
        super().__init__(page=page_state(self._state), key=secrets.token_hex(8))
        self._loop = asyncio.get_running_loop()
        self._on_answer, self._on_stop, self._schemas = on_answer, on_stop, schemas
        self._arguments: dict[str, Mapping[str, Any]] = {}
        self._errors: dict[str, str] = {}
        self._closed = False
        self._painter = Painter(self._loop, self._post)
        self._painter.settled(self._state)
        self.ready = asyncio.Event()
        self.views = 0
        self.on_msg(self._receive)

    @property
    def state(self) -> ViewState:
        """The view state after the last event."""
        return self._state

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """A text/plain that says what a saved live view was, always the same: no address, no id."""
        result = super()._repr_mimebundle_(**kwargs)
        data = result[0] if isinstance(result, tuple) else result
        if data:
            data["text/plain"] = SAVED_LIVE
        return result

    # ---- to the page ----

    def apply(self, event: ev.SessionEvent) -> None:
        """Take in an event of the run."""
        if isinstance(event, ev.ApprovalRequested):
            self._arguments[event.request.id] = event.request.arguments
        elif isinstance(event, ev.ApprovalResolved):
            self._arguments.pop(event.request.id, None)
            self._errors.pop(event.request.id, None)
        self._change(view_state.apply(self._state, event, schemas=self._schemas))
        if isinstance(event, _CHECKPOINTS):
            self.checkpoint()

    def mark_stopped(self) -> None:
        """Say in view and record that the run was stopped, not interrupted."""
        self._change(view_state.stopped(self._state))

    def close_state(self, *, error: str = "", code: str = "") -> ViewState:
        """Close what is open when the run ended without its last event; see ``view_state.close``."""
        self._change(view_state.close(self._state, error=error, code=code))
        return self._state

    def _change(self, state: ViewState) -> None:
        if state is not self._state:
            self._state = state
            self._painter.paint(state)

    def checkpoint(self) -> None:
        """Set the synced state: what a page that comes now starts from."""
        if not self._closed:
            self._painter.settled(self._state)
            self.page = {**page_state(self._state), "errors": dict(self._errors)}

    def answer_failed(self, approval_id: str, message: str) -> None:
        """Show ``message`` in the card, which can be answered again."""
        if approval_id in self._arguments:
            self._errors[approval_id] = visible(message)
            self._post({"type": "answer_failed", "id": approval_id, "message": self._errors[approval_id]})

    def finish(self, bundle: Mapping[str, str]) -> None:
        """The run has ended and ``bundle`` is its record. Closes the widget unless several pages drew it: those take
        the record from ``final``, since a display update does not reach them."""
        if self._closed:
            return
        self._arguments.clear()
        self._painter.stop()
        if self.views > 1:
            self.checkpoint()
            self.final = bundle.get("text/html", "")
        self._closed = True
        if self.views <= 1:
            self.close()

    def _post(self, content: dict[str, Any]) -> None:
        if self.views and not self._closed:  # before the first "ready" nobody listens, and it brings a checkpoint
            self.send(content)

    # ---- from the page ----

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        # Some kernels call this in another thread.
        self._loop.call_soon_threadsafe(self._take, content)

    def _take(self, content: Any) -> None:
        kind = content.get("type") if isinstance(content, Mapping) else None
        if kind == "ready":
            self.views += 1
            self.ready.set()
            self.checkpoint()
        elif kind == "stop" and not self._closed:
            self.mark_stopped()
            self._on_stop()
        elif kind == "answer":
            self._answer(content)
        elif kind == "ping":  # a page asks whether its card can still be answered
            self._post({"type": "pong"})

    def _answer(self, content: Mapping[str, Any]) -> None:
        approval_id = str(content.get("id"))
        if approval_id not in self._arguments:
            self._post({"type": "answer_failed", "id": approval_id, "message": "This question is closed."})
            return
        try:
            problem = self._on_answer(approval_id, self._read(approval_id, content))
        except ValueError as error:
            problem = str(error)
        if problem:
            self.answer_failed(approval_id, problem)

    def _read(self, approval_id: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """The answer in a message of the page. Nothing but ``approved === true`` approves."""
        answer: dict[str, Any] = {"approved": content.get("approved") is True}
        if isinstance(content.get("reason"), str) and content["reason"].strip():
            answer["reason"] = content["reason"].strip()
        if not answer["approved"]:
            return answer
        if content.get("remember") == "session":
            answer["remember"] = "session"
        if isinstance(content.get("arguments"), Mapping):
            answer["arguments"] = dict(content["arguments"])
        elif isinstance(content.get("changes"), Mapping):
            given = self._arguments[approval_id]
            changed = edited(given, self._fields(approval_id), content["changes"])
            if changed != given:
                answer["arguments"] = changed
        return answer

    def _fields(self, approval_id: str) -> list[dict[str, Any]]:
        for block in self._state["blocks"]:
            if block.get("card") and block["card"]["id"] == approval_id:
                fields: list[dict[str, Any]] = block["card"]["fields"]
                return fields
        return []
