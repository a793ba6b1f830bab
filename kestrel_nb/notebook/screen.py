"""One run on the screen of a cell.

Live, the cell shows a view, hears its buttons while it awaits the run, and at the end puts the static record in the
view's place: one output. Without a person there is no widget at all, only the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from IPython.display import display

from ..protocol.errors import ApprovalError, KestrelError
from ..protocol.events import Notice, SessionEvent
from ..protocol.sessions import ApprovalDecision, RunResult
from ..providers.cassette import Cassette
from ..runtime.execution import in_daemon_thread
from ..runtime.run import RunOptions
from ..runtime.secrets import Masker
from ..runtime.session import AgentSession
from . import record, view_state
from .answering import HeadlessPolicy, PersonAnswers, PolicyAnswers
from .cassettes import info_of, label_of, not_recorded
from .cell import CellOptions
from .handle import RunHandle
from .inspecting import NO_DATA
from .outgoing import EARLIER_VALUES, Outgoing, compose, may_hold_values, note_without_data
from .state import NotebookState
from .waiting import CellInterrupted, breaking_stalls, kernel, stdin_allowed, ticking

STABLE_PROVIDERS = ("demo", "scripted")  # the same run each time, as with a cassette: nothing in the record differs

ENDING_S = 1.5  # what an interrupted run gets to end and to be stored; it needs half a second
INTERRUPTED = "the run was interrupted; the record above shows what had been done"
ERROR_CHARS = 500  # of a failed run's error in the cell's own error line; the record shows more


async def view_loaded() -> None:
    """Load what draws a view. It takes a moment the first time, in which the event loop goes on."""
    if f"{__package__}.run_view" not in sys.modules and kernel() is not None:
        await in_daemon_thread(import_module, ".run_view", __package__)


class RunError(Exception):
    """A run failed. Raised in the cell after its record was shown, so that Run All stops; one line, no traceback."""

    def _render_traceback_(self) -> list[str]:
        text = " ".join(str(self).split())
        return [f"kestrel: {text[:ERROR_CHARS]}{'…' if len(text) > ERROR_CHARS else ''}"]


class Screen:
    """One run on the screen: feeds the view and the handle with events, and ends with the record."""

    def __init__(
        self,
        state: NotebookState,
        session: AgentSession,
        policy: HeadlessPolicy | None,
        options: RunOptions,
        variable: str | None = None,
        sent: tuple[Mapping[str, Any], ...] = (),
        *,
        no_data: bool = False,
    ) -> None:
        self.policy = policy
        self.handle = RunHandle(session)
        self._state = state
        self._app = state.app
        self._session = session
        self._options = options
        self._sent = sent
        self._outgoing: Outgoing | None = None
        self._no_data = no_data or state.settings.no_data
        self._sent_without_data = False  # a turn of this screen
        self._view: Any = None
        self._shown: Any = None
        self._picture = self._first_picture(session, options.model, variable or "_")
        self._unsubscribe: Callable[[], None] = lambda: None
        self._answers: PersonAnswers | PolicyAnswers | None = None

    def _first_picture(self, session: AgentSession, model: str | None, variable: str) -> Any:
        cassette = self._cassette
        info = info_of(self._app, model or session.model or None, cassette)
        self._stable = cassette is not None or info.provider in STABLE_PROVIDERS
        self._label = label_of(info, cassette)
        return view_state.initial(
            model=self._label, stable=self._stable, workspace=session.workspace, handle=variable, sent=self._sent
        )

    @property
    def _cassette(self) -> Cassette | None:
        """What records or plays the run."""
        cassette = self._options.interceptor or self._app.cassette
        return cassette if isinstance(cassette, Cassette) and cassette.active else None

    def compose(self, prompt: str, *, context: bool) -> str:
        """The message to send for ``prompt``; what it discloses will be shown. Raises UsageError."""
        self._must_be_free()
        message = compose(self._state, self._session, prompt, no_data=self._no_data, context=context)
        self._outgoing, self._sent = message, message.rows
        self._state.runs.note_typed(message.text, prompt)
        self._picture = self._first_picture(self._session, self._options.model, self._picture["handle"])
        return message.text

    def start(self, prompt: str) -> None:
        """Show the view and start the run. Raises KestrelError when it can't start; nothing is shown then."""
        self._must_be_free()
        self._listen()
        try:
            self._run = self._session.start(prompt, options=self._options)
        except BaseException:
            self._close()
            raise
        if self._cassette is None and (text := not_recorded(self._app, self._options.model or self._session.model)):
            self._note("warning", "not_recorded", text)
        for text in self._state.tools.news():
            self._note("info", "tool_replaced", text)
        for text in self._state.rules.news():
            self._note("warning", "rules_unreadable", text)
        if self._no_data and may_hold_values(self._session):
            self._note("warning", "earlier_values", EARLIER_VALUES)
        self._sent_without_data = self._no_data
        if self._outgoing is not None:
            self._outgoing.remember(self._session)
            for level, text in self._outgoing.notes:
                self._note(level, "reference", text)
        if self._view is not None:
            self._shown = display(self._view, display_id=True)

    def _note(self, level: str, code: str, text: str) -> None:
        self._session.emit(Notice, run_id=self._run.run_id, level=level, code=code, text=text)

    @classmethod
    def for_resumed(cls, state: NotebookState, session: AgentSession) -> Screen:
        """A screen that listens already, for a run that an answer will resume."""
        live = stdin_allowed()
        screen = cls(state, session, None if live else state.policy(CellOptions()), RunOptions())
        screen._listen()
        return screen

    def abandon(self) -> None:
        """Nothing was resumed: stop listening."""
        self._close()

    async def follow(self, session: AgentSession) -> None:
        """Show the resumed run and await its end as a cell does."""
        assert session.run is not None
        self._run = session.run
        self._state.last = self.handle
        if self._view is not None:
            self._shown = display(self._view, display_id=True)
        await self.finish_in_cell()

    def _listen(self) -> None:
        if self._no_data:
            self._session.metadata[NO_DATA] = True
        if self.policy is None and kernel() is not None:
            self._open_view()
        self._answers = (
            PersonAnswers(self._app.approvals, self._view)
            if self.policy is None
            else PolicyAnswers(self._app.approvals, self.policy, self._session.cancel)
        )
        self._unsubscribe = self._session.subscribe(self._on_event)

    def _must_be_free(self) -> None:
        if self._session.is_running:
            raise KestrelError(
                f'the session "{self._session.title}" is running in another cell; wait for it, stop it with '
                "%kestrel cancel, or use another session: %%kestrel -s NAME"
            )

    def _open_view(self) -> None:
        from .run_view import RunView

        self._view = RunView(
            model=self._label,
            stable=self._stable,
            on_answer=self._on_answer,
            on_stop=self._on_stop,
            workspace=self._session.workspace,
            handle=self._picture["handle"],
            schemas=self._schema,
            sent=self._sent,
        )

    def _schema(self, name: str) -> Any:
        tool = self._app.tools.get(name)
        return tool.schema.parameters if tool else None

    # ---- while it runs ----------------------------------------------------------------------------------------

    def _on_event(self, event: SessionEvent) -> None:
        if event.run_id is None:
            return
        self.handle.run_id = self.handle.run_id or event.run_id
        self.handle.collect(event)
        if self._view is not None:
            self._view.apply(event)
        else:
            self._picture = view_state.apply(self._picture, event)
        if self._answers is not None:
            self._answers.on_event(event)

    def _on_answer(self, id: str, answer: dict[str, Any]) -> str | None:
        edited = answer.get("arguments")
        decision = ApprovalDecision(
            approved=answer.get("approved") is True,
            reason=str(answer["reason"]) if answer.get("reason") else None,
            arguments=edited if isinstance(edited, dict) else None,
            remember="session" if answer.get("remember") == "session" else None,
        )
        try:
            self._app.approvals.resolve(id, decision, answered_by="button")
        except ApprovalError as error:
            return str(error)
        return None

    def _on_stop(self) -> None:
        self._session.cancel()

    # ---- the end ----------------------------------------------------------------------------------------------

    async def finish_in_cell(self) -> None:
        """Await the run as a cell does: Interrupt cancels it, a failure raises, Stop and declines don't."""
        try:
            with breaking_stalls():
                await self.finish()
        except asyncio.CancelledError:
            self._session.cancel()
            # Pressed again, or a store that does not end: the record is due all the same.
            with contextlib.suppress(asyncio.CancelledError, asyncio.TimeoutError):
                await asyncio.wait_for(self._session.ended(), ENDING_S)
            self._leave_record(None, interrupted=True)
            raise CellInterrupted(INTERRUPTED) from None
        if refusal := self._refusal():
            raise RunError(refusal)
        if self.handle.error is not None:
            raise RunError(self.handle.error)

    def _refusal(self) -> str:
        """Why the policy "fail" ended the run; "" when it did not."""
        failed_on = getattr(self._answers, "failed_on", None)
        if failed_on is None:
            return ""
        return f'{failed_on.tool} needs an approval, and the policy for runs without a person is "fail"'

    async def finish(self) -> None:
        """Await the run and leave the record in the view's place."""
        result = None
        async with ticking():
            try:
                result = await self._run
            except asyncio.CancelledError:
                raise
            except Exception:
                result = None  # the run.failed event holds the text; the record shows it
        self._leave_record(result)

    def _leave_record(self, result: RunResult | None, *, interrupted: bool = False) -> None:
        if self.handle._record is not None:
            return
        self._close()
        picture = self._view.close_state() if self._view is not None else view_state.close(self._picture)
        picture = picture if interrupted else view_state.stopped(picture)
        refusal = self._refusal()
        bundle = record.render(view_state.refused(picture, refusal) if refusal else picture)
        mask = Masker.from_environment().mask
        bundle = {kind: mask(text) for kind, text in bundle.items()}  # a model may repeat a key that it was told
        self.handle.finish(bundle, result)
        if self._shown is not None:
            drawn = self._view.views > 0
            self._state.saw_view(drawn=drawn)
            self._shown.update(bundle, raw=True)
            self._view.finish(bundle)
            if drawn or not getattr(self._answers, "used_stdin", False):
                return
        # Also on a console: it takes neither a widget nor an update of what it has shown.
        display(bundle, raw=True)

    def _close(self) -> None:
        if self._no_data:
            self._session.metadata.pop(NO_DATA, None)
        if self._sent_without_data:
            note_without_data(self._session)
        self._unsubscribe()
        if self._answers is not None:
            self._answers.close()
