"""What one notebook has: its application, its sessions, the runs that are going, the last record."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, cast

from IPython.core.getipython import get_ipython

from ..app import Kestrel
from ..protocol.errors import KestrelError, UsageError
from ..protocol.sessions import ApprovalRequest
from ..protocol.suggest import suggestion
from ..runtime.file_store import FileSessionStore
from ..runtime.session import AgentSession
from ..runtime.store_place import HOME_VARIABLE, store_folder
from . import capturing
from .answering import POLICIES, HeadlessPolicy
from .cassettes import Cassettes
from .cell import CellOptions
from .failures import failures_of
from .handle import RunHandle
from .kernel_tools import NotebookTools
from .open_cells import cells_of
from .rule_book import RuleBook
from .run_log import RunLog
from .session_names import SessionNames
from .settings import Kestrel as Settings
from .settings import settings_of
from .user_tools import UserTools, is_tool

POLICY_VARIABLE = "KESTREL_HEADLESS"  # the policy for notebooks that are executed without a person


class NotebookState:
    """The state of the extension in one IPython shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self._app: Kestrel | None = None
        self._session: AgentSession | None = None
        self.last: RunHandle | None = None
        self.background: set[asyncio.Task[None]] = set()
        self.tools = UserTools(self.namespace)
        self.failures = failures_of(shell)
        self.cells = cells_of(shell)
        self.rules = RuleBook(store_folder)
        self.runs = RunLog()
        self.cassettes = Cassettes()
        self.names = SessionNames()
        self.views_shown = self.views_drawn = 0  # live views in this kernel, and those that a page said it drew
        self.can_wait = True  # False while a line magic runs where nothing can be awaited
        self._short_ids: dict[str, str] = {}
        self._setting_due = True  # Kestrel.model holds for the application made here, once its models are there
        self.settings.on_model(self._take_setting)

    @property
    def settings(self) -> Settings:
        """What ``%config Kestrel`` shows."""
        return settings_of(self.shell)

    @property
    def app(self) -> Kestrel:
        """The application: the user's own after ``%kestrel use``, else one made at first use."""
        if self._app is None:
            try:
                folder = os.getcwd()
            except OSError:
                raise UsageError("the kernel's working folder is gone; %cd to one that exists") from None
            plugins = [NotebookTools(self.shell)]
            self._app = Kestrel(workspace=folder, store=FileSessionStore(store_folder()), plugins=plugins)
            self.rules.attach(self._app)
            self.runs.follow(self._app)
            self.cassettes.attach(self._app)
        return self._app

    @property
    def begun(self) -> AgentSession | None:
        """The session of the cells that name none, when there is one already."""
        if self._session is None or self._app is None or not self._app.sessions.has(self._session.id):
            return None
        return self._session

    @property
    def model(self) -> str | None:
        """The model of the cells that name none. Raises UsageError for a setting that names none there is."""
        self._settle_model()
        return self.begun.model if self.begun is not None else self.app.models.default_model

    @property
    def has_app(self) -> bool:
        """True once an application is there to be closed."""
        return self._app is not None

    def about_store(self) -> str:
        """Where sessions are kept and how to choose another place, for an error of the store."""
        return f"; sessions are kept in {store_folder()}, {HOME_VARIABLE} names another folder"

    def use_app(self, app: Kestrel) -> None:
        """Work with ``app`` from now on, in a new session."""
        self._app, self._session, self._setting_due = app, None, False
        self.tools.forget()
        self.rules.attach(app)
        self.runs.follow(app)
        self.cassettes.attach(app)

    def choose_model(self, id: str) -> None:
        """Make ``id`` the default model from now on. Raises ModelNotFoundError."""
        self.app.models.set_default(id)
        self._setting_due = False

    def use_model(self, id: str) -> None:
        """Make ``id`` the model from now on, in the session at hand too. Raises ModelNotFoundError."""
        self.choose_model(id)
        if self.begun is not None:
            self.begun.set_model(id)

    def _take_setting(self, id: str) -> None:
        if self._app is None:
            return
        self.choose_model(id)
        if self._session is not None and self._session.model != id:
            self._session.set_model(id)

    def _settle_model(self) -> None:
        """Take the first value of Kestrel.model. Raises UsageError when there is no such model."""
        if self._setting_due and self.settings.model:
            try:
                self.choose_model(self.settings.model)
            except KestrelError as error:
                raise UsageError(f"{error}; %config Kestrel.model says which one") from None

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's variables."""
        return cast("dict[str, Any]", self.shell.user_ns)

    def session(self, options: CellOptions | None = None) -> AgentSession:
        """The session of a cell: the one it names, else this kernel's own, made at first use.

        Raises UsageError for a name that can't be one.
        """
        self._settle_model()
        name = options.session if options else None
        if name is None:
            if self.begun is None:
                self._session = self.app.sessions.create()
            return cast(AgentSession, self._session)
        recorded = self.cassettes.are_used(self.app, options)
        if (session := self.names.session(self.app, name, recorded=recorded)) is not None:
            return session
        if name.startswith("-"):
            raise UsageError(f'a session name does not begin with "-", as "{name}" does: that is an option')
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii() or len(name) > 128:
            raise UsageError(f'a session name has letters, digits, "-" and "_" only, not "{name}"')
        return self.names.make(self.app, name)

    def new_session(self, name: str | None = None) -> AgentSession:
        """Begin a new session and make it the one of the cells that follow."""
        if name is not None:
            self.must_be_free(name)
        self._session = None
        self._session = self.session(CellOptions(session=name))
        return self._session

    def must_be_free(self, name: str) -> None:
        """Raise UsageError when there is a session of that name."""
        if self.names.session(self.app, name, recorded=self.cassettes.are_used(self.app)) is not None:
            raise UsageError(f'there is a session "{name}" already; go on with it by %%kestrel -s {name}')

    def begin_anew(self) -> None:
        """Let the next cells begin sessions of their own, also those that name one."""
        self._session = None
        self.names.forget()

    def saw_view(self, *, drawn: bool) -> None:
        """Count a live view that was shown."""
        self.views_shown += 1
        self.views_drawn += drawn

    def go_on_with(self, session: AgentSession) -> None:
        """Make ``session`` the one of the cells that name none."""
        self._session = session

    def find_session(self, name: str | None) -> AgentSession:
        """The session ``name`` (an id or a title), else the current one. Makes none.

        Raises UsageError that names the others, or says that there is none yet.
        """
        if name is None:
            if self.begun is None:
                raise UsageError("no session yet; a %%kestrel cell begins one")
            return self.begun
        summaries, id = self.app.sessions.list(), self.names.id_of(name)
        for summary in summaries:
            if id in (summary.id, summary.title):
                return self.app.sessions.get(summary.id)
        names = [summary.id for summary in summaries]
        hint = suggestion(name, names, f"there are: {', '.join(names[:8]) or 'none yet'}")
        raise UsageError(f'no session "{name}"; {hint}')

    def policy(self, options: CellOptions) -> HeadlessPolicy:
        """The headless policy: the cell's, the setting, the environment's, deny. Raises UsageError for another word."""
        word = options.headless or self.settings.headless or os.environ.get(POLICY_VARIABLE) or "deny"
        if word not in POLICIES:
            raise UsageError(f'{POLICY_VARIABLE} is one of {", ".join(POLICIES)}, not "{word}"')
        return cast(HeadlessPolicy, word)

    def pick_tools(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names of the tools that ``-t`` offers; variables that hold a tool are registered on the way.

        Raises UsageError for a name that is neither.
        """
        chosen = []
        for name in names:
            if is_tool(self.namespace.get(name)):
                chosen.append(self.tools.take(self.app, name))
            elif self.app.tools.get(name):
                chosen.append(name)
            elif callable(self.namespace.get(name)):
                raise UsageError(f'"{name}" is no tool yet; put @tool above its definition and run that cell again')
            else:
                raise UsageError(self.app.why_not(name) or name)
        for problem in filter(None, map(self.app.why_not, chosen)):
            raise UsageError(problem)
        return tuple(chosen)

    def short_id(self, request: ApprovalRequest) -> str:
        """A short name for a question, valid in this kernel: a1, a2, ..."""
        for short, id in self._short_ids.items():
            if id == request.id:
                return short
        short = f"a{len(self._short_ids) + 1}"
        self._short_ids[short] = request.id
        return short

    def approval_id(self, word: str) -> str:
        """The id of the question that ``word`` names: short, whole, or the beginning of one. Raises UsageError."""
        if word in self._short_ids:
            return self._short_ids[word]
        pending = self.app.approvals.pending()
        matches = [request.id for request in pending if request.id == word]
        if not matches and len(word) >= 8:
            matches = [request.id for request in pending if request.id.startswith(word)]
        if len(matches) == 1:
            return matches[0]
        if any(record.request.id == word for record in self.app.approvals.history()):
            return word  # the broker says how it was answered
        waiting = ", ".join(f"{self.short_id(request)} ({request.tool})" for request in pending)
        raise UsageError(f'no question "{word}" waits; ' + (f"waiting: {waiting}" if waiting else "nothing waits"))

    def close(self) -> None:
        """Stop what goes on and close the application; from synchronous code, on whatever loop is there."""
        app, self._app, self._session = self._app, None, None
        self.rules.detach()
        self.cassettes.close()
        if app is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            app.close()
            return
        task = loop.create_task(app.aclose())
        self.background.add(task)
        task.add_done_callback(self.background.discard)


_states: dict[int, NotebookState] = {}


def state_of(shell: Any) -> NotebookState:
    """The state of ``shell``, made when there is none."""
    key = id(shell)
    if key not in _states:
        _states[key] = NotebookState(shell)
    return _states[key]


def current() -> NotebookState:
    """The state of the shell that runs. Raises KestrelError outside IPython and in code that a run has started."""
    shell = get_ipython()
    if shell is None:
        raise KestrelError("there is no IPython shell here; in a program use kestrel_nb.Kestrel")
    if capturing.active() is not None:
        raise UsageError("code that a run has started can't use %%kestrel or %kestrel: no run inside a run")
    return state_of(shell)


def forget(shell: Any) -> None:
    """Drop and close the state of ``shell``."""
    state = _states.pop(id(shell), None)
    if state is not None:
        state.close()


def variables_of(namespace: Mapping[str, Any], kind: type) -> list[str]:
    """The names of the user's variables that hold a ``kind``."""
    return sorted(name for name, value in namespace.items() if isinstance(value, kind) and not name.startswith("_"))
