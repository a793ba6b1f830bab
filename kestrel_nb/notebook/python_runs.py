"""Running code in the user's namespace as a cell of the user's would run, inside a cell that awaits.

The road is IPython's own parts, one by one: its transforms, its compiler, its events, ``exec`` or ``await`` of each
statement, its formatters. ``shell.run_cell_async`` inside itself was the other road, and it shares too much with the
cell around it and with cells that run while this code awaits: it publishes errors and values at once, sets the last
result, counts, and silences by the semicolon of the cell around it; putting all that back afterwards would undo what a
cell did meanwhile. Here a cell's state is never touched: what the code can reach of it is put in and out around each
stretch of the code, see ``stepping``; its output goes by context, see ``capturing``.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import getpass
import inspect
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.displayhook import DisplayHook
from IPython.core.error import InputRejected
from IPython.core.error import UsageError as ShellUsageError
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

from ..protocol.errors import ToolCallError
from ..runtime.signals import CancelSignal
from .capturing import Capture, active, capturing, no_input, start_in_context
from .disclosure import Level
from .failures import failures_of
from .mutations import changed_names
from .python_errors import error_text
from .stepping import Attribute, Inside, Item, Method, Place, Stepping, Stopper, end_children_of
from .variables import Changes, changes, snapshot, user_variables

LONGEST = 200_000  # characters of code

_BAD_SYNTAX = (InputRejected, OverflowError, SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
_NO_END = "code of run_python can't end the kernel; restart it with the front end"
_locks: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()  # by shell: code of two calls never mixes


@dataclass(slots=True)
class Finished:
    """How code ended. ``error`` is the text of what it raised; ``notes`` are sentences about the process."""

    capture: Capture
    error_type: str = ""
    error: str = ""
    timed_out: bool = False
    changes: Changes = field(default_factory=Changes)
    notes: list[str] = field(default_factory=list)


def checked(code: str) -> str:
    """``code`` when it can be run at all. Raises ToolCallError that says why not."""
    if not code.strip():
        raise ToolCallError("code: there is nothing to run")
    if len(code) > LONGEST:
        raise ToolCallError(f"code: has {len(code):,} characters, at most {LONGEST:,} are run")
    if "\0" in code:
        raise ToolCallError("code: must not contain a NUL character")
    try:
        code.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolCallError("code: must be valid Unicode, without lone surrogates") from None
    return code


async def run_python(
    shell: Any, code: str, stop: CancelSignal, *, limit_s: float, level: Level | None = None
) -> Finished:
    """Run ``code`` in the namespace of ``shell``, after any other code that a tool runs there.

    ``limit_s``: seconds until it is stopped. ``level``: the most that its last value tells of a table. Raises
    ToolCallError when it can't be run here, KeyboardInterrupt when a person interrupts it, CancelledError when ``stop``
    is cancelled or the task is.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ToolCallError("run_python runs in the kernel's main thread only; ask from an ordinary cell")
    if active() is not None:
        raise ToolCallError("code of run_python can't use run_python")
    async with _locks.setdefault(shell, asyncio.Lock()):
        run = _Run(shell, code, level)
        before = _Surroundings(shell)
        try:
            with shell.builtin_trap, capturing(run.capture, shell):
                await run.work(stop, limit_s)
        finally:
            run.say_what_is_left()
        done = run.finished
        done.changes = changes(before.variables, snapshot(user_variables(shell)), touched=changed_names(run.ran))
        done.notes += before.news()
        return done


class _Run:
    """One run of code, from its text to its end."""

    def __init__(self, shell: Any, code: str, level: Level | None) -> None:
        self.capture = Capture(shell, level)
        self.finished = Finished(self.capture)
        self.ran: list[ast.stmt] = []  # statements that have begun
        self._shell, self._code = shell, code
        self._tasks = asyncio.all_tasks()
        self._file = "<run_python>"
        self._asked_to_end = False
        self._places = _places(shell, self)
        around = failures_of(shell).unwatched
        self._inside = Inside([(place, own) for place, own, _ in self._places], around)

    async def work(self, stop: CancelSignal, limit_s: float) -> None:
        """Run it; what it raises becomes text."""
        shell = self._shell
        transformed, error = self._transformed()
        self._file = self._cached(transformed)
        end_children_of(asyncio.get_running_loop(), lambda: active() is not None)
        info = execution_info(self._code, transformed)
        result = ExecutionResult(info)
        result.execution_count = shell.execution_count
        with Stopper(self._file, limit_s, stop) as stopper:
            self._inside.stopper = stopper
            try:
                if error is None:
                    error = await self._run(transformed, info, result)
                else:
                    result.error_before_exec = error
            except BaseException as stopped:
                error = self._kept(stopped, stopper, stop)
                result.error_in_exec = error
            finally:
                self._trigger("post_execute")
                self._trigger("post_run_cell", result)
        stopper.settle()
        if stopper.interrupted and not stopper.timed_out:
            raise KeyboardInterrupt  # the code took no notice; the run does
        if error is not None:
            self._take(error, stopper.timed_out)
        self.finished.timed_out = stopper.timed_out

    def _transformed(self) -> tuple[str, BaseException | None]:
        """The code as Python, and what was wrong with it."""
        try:
            with self._inside:
                transformed = self._shell.transform_cell(self._code)
        except Exception as error:
            return self._code, error
        self.capture.quiet = _ends_in_semicolon(transformed)
        return transformed, None

    def _cached(self, transformed: str) -> str:
        """The name of the code's source, under which tracebacks and ``inspect`` find it."""
        compiler, count = self._shell.compile, self._shell.execution_count - 1
        name = compiler.get_code_name(self._code, transformed, count)
        count = getattr(compiler, "_filename_map", {}).get(name, count)
        return str(compiler.cache(transformed, count, raw_code=self._code))

    async def _run(self, transformed: str, info: Any, result: Any) -> BaseException | None:
        """The error that the code ended in. Raises what may have come from outside: see ``_kept``."""
        shell = self._shell
        self._trigger("pre_execute")
        self._trigger("pre_run_cell", info)
        compiler = shell.compiler_class()  # a future statement of the code is none of the user's cells
        compiler.flags = shell.compile.flags
        try:
            with self._inside:
                nodes = shell.transform_ast(compiler.ast_parse(transformed, filename=self._file)).body
        except _BAD_SYNTAX as error:
            result.error_before_exec = error
            return error
        for node, mode in _modes(nodes, shell.ast_node_interactivity):
            module = ast.Interactive([node]) if mode == "single" else ast.Module([node], [])
            try:
                with self._inside, compiler.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if shell.autoawait else 0):
                    compiled = compiler(module, self._file, mode)
            except _BAD_SYNTAX as error:
                result.error_before_exec = error
                return error
            self.ran.append(node)
            await self._statement(compiled)
        return None

    async def _statement(self, compiled: Any) -> None:
        __tracebackhide__ = "__ipython_bottom__"
        shell = self._shell
        if compiled.co_flags & inspect.CO_COROUTINE:
            await Stepping(eval(compiled, shell.user_global_ns, shell.user_ns), self._inside)
        else:
            with self._inside:
                exec(compiled, shell.user_global_ns, shell.user_ns)

    def _kept(self, error: BaseException, stopper: Stopper, stop: CancelSignal) -> BaseException:
        """``error`` when it is the code's own or the time limit's. Raises it when a person stopped the run."""
        if isinstance(error, KeyboardInterrupt):
            if stopper.interrupted and not stopper.timed_out:
                raise error
        elif isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            task = asyncio.current_task()
            if stop.cancelled or isinstance(error, GeneratorExit):
                raise error
            if not stopper.settle() and task is not None and task.cancelling():
                raise error
        return error

    def _take(self, error: BaseException, timed_out: bool) -> None:
        self.finished.error_type = type(error).__name__
        if not timed_out:
            self.finished.error = error_text(self._shell, error, self._code, self._file)
            if isinstance(error, SystemExit) or self._asked_to_end:
                self.finished.error += f"\n{_NO_END}"
        error.__traceback__ = None  # else the frames keep the user's objects alive

    def _trigger(self, event: str, *values: Any) -> None:
        with self._inside:
            self._shell.events.trigger(event, *values)

    # ---- in the place of what the process has -----------------------------------------------------------------

    def show_error(self, kind: type[BaseException], error: BaseException, lines: Sequence[str]) -> None:
        """``shell._showtraceback``: an error that a magic or a formatter has caught."""
        self.capture.fail(error_text(self._shell, error, self._code, self._file))

    def refuse_end(self, *_: Any) -> None:
        """``shell.ask_exit``, behind ``exit`` and ``quit``."""
        self._asked_to_end = True
        raise SystemExit(0)

    def take_payload(self, payload: Any, *_: Any, **__: Any) -> None:
        """``payload_manager.write_payload``: a page of help is output, a next input is nobody's."""
        data = payload.get("data") if isinstance(payload, dict) else None
        if isinstance(data, dict):
            self.capture.show(data, {}, None, False)

    def keep_extension(self, name: str) -> Any:
        """``unload_extension`` and ``reload_extension``, which would end the very run."""
        if name.partition(".")[0] == "kestrel_nb":
            raise ShellUsageError("kestrel_nb can't be unloaded by code that it runs")
        manager = self._shell.extension_manager
        return type(manager).unload_extension(manager, name)

    def keep_or_reload(self, name: str) -> Any:
        """See ``keep_extension``."""
        if name.partition(".")[0] == "kestrel_nb":
            raise ShellUsageError("kestrel_nb can't be reloaded by code that it runs")
        manager = self._shell.extension_manager
        return type(manager).reload_extension(manager, name)

    # ---- afterwards -------------------------------------------------------------------------------------------

    def say_what_is_left(self) -> None:
        """Notes about threads, tasks and replaced streams."""
        notes = self.finished.notes
        left = self._inside.left()
        replaced = [name for place, own, name in self._places if name and left[place] is not (own or left[place])]
        if replaced:
            notes.append(f"{', '.join(replaced)} was replaced by the code and put back after it")
        threads = sum(thread.is_alive() and not _is_helper(thread) for thread in self.capture.threads)
        tasks = sum(_is_of(task, self._shell.user_ns) for task in asyncio.all_tasks() - self._tasks)
        for count, what in ((threads, "thread"), (tasks, "asyncio task")):
            if count:
                are = f"{what} is" if count == 1 else f"{what}s are"
                notes.append(f"{count} {are} still running; what is printed there from now on is dropped")


def _is_helper(thread: threading.Thread) -> bool:
    """A thread that a library keeps for its own use: IPython's loop behind ``%%bash``, a pool's idle worker."""
    target = getattr(thread, "_target", None)
    return str(getattr(target, "__module__", "")).partition(".")[0] in ("IPython", "asyncio", "concurrent")


def _is_of(task: asyncio.Task[Any], namespace: dict[str, Any]) -> bool:
    frame = getattr(task.get_coro(), "cr_frame", None)
    return not task.done() and frame is not None and frame.f_globals is namespace


def _places(shell: Any, run: _Run) -> list[tuple[Place, Any, str]]:
    """What the code finds in its own way: the place, what stands there (None: what does already), and a name for what
    is worth telling when the code has replaced it."""
    hook, manager, thread_start = shell.displayhook, shell.extension_manager, threading.Thread.start
    last = ("last_type", "last_value", "last_traceback", "last_exc")
    kept = ("execution_count", "last_execution_result", "last_execution_succeeded", "_last_traceback")
    return [
        (Attribute(sys, "stdout"), sys.stdout, "sys.stdout"),
        (Attribute(sys, "stderr"), sys.stderr, "sys.stderr"),
        (Attribute(sys, "displayhook"), run.capture.give, "sys.displayhook"),
        (Attribute(sys, "excepthook"), shell.excepthook, ""),
        (Attribute(builtins, "input"), no_input, ""),
        (Attribute(getpass, "getpass"), no_input, ""),
        (Attribute(threading.Thread, "start"), start_in_context(thread_start, run.capture), ""),
        (Method(shell, "ask_exit"), run.refuse_end, ""),
        (Method(shell, "_showtraceback"), run.show_error, ""),
        (Method(shell.payload_manager, "write_payload"), run.take_payload, ""),
        (Method(manager, "unload_extension"), run.keep_extension, ""),
        (Method(manager, "reload_extension"), run.keep_or_reload, ""),
        *((Attribute(sys, name), None, "") for name in last),
        *((Attribute(shell, name), None, "") for name in kept),
        *((Attribute(hook, name), None, "") for name in ("exec_result", "_", "__", "___")),
        *((Item(shell.user_ns, name), None, "") for name in ("_", "__", "___")),
    ]


def execution_info(code: str, transformed: str) -> Any:
    """IPython's description of a cell, with the fields that its version has."""
    values = {
        "raw_cell": code,
        "store_history": False,
        "silent": False,
        "shell_futures": True,
        "cell_id": None,
        "cell_meta": None,
        "transformed_cell": transformed,
    }
    known = inspect.signature(ExecutionInfo).parameters
    return ExecutionInfo(**{name: value for name, value in values.items() if name in known})


def _ends_in_semicolon(code: str) -> bool:
    try:
        return bool(DisplayHook.semicolon_at_end_of_expression(code))
    except Exception:  # the tokenizer, on code that is no Python; the compiler will say so
        return False


def _modes(nodes: list[ast.stmt], interactivity: str) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement and whether its value is shown, by IPython's setting ``ast_node_interactivity``."""
    if interactivity == "last_expr_or_assign" and nodes:
        nodes = [*nodes, *_assigned(nodes[-1])]
    for node in nodes:
        last = node is nodes[-1] and (interactivity == "last" or isinstance(node, ast.Expr))
        yield node, "single" if interactivity == "all" or (interactivity != "none" and last) else "exec"


def _assigned(node: ast.stmt) -> Iterator[ast.stmt]:
    target: Any = None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        target = node.target
    if isinstance(target, ast.Name):
        yield ast.fix_missing_locations(ast.copy_location(ast.Expr(ast.Name(target.id, ast.Load())), node))


class _Surroundings:
    """The variables, the working folder and the environment before the code."""

    def __init__(self, shell: Any) -> None:
        self.variables = snapshot(user_variables(shell))
        self._folder, self._environment = _folder(), dict(os.environ)
        self._builtins = dict(vars(builtins))

    def news(self) -> list[str]:
        """What the code has changed of the process, in sentences. Names only, no values."""
        notes = []
        folder, environment, named = _folder(), dict(os.environ), vars(builtins)
        if folder != self._folder:
            notes.append(f"the working folder is now {_short(folder, self._folder)}")
        names = {*self._environment, *environment}
        if changed := _listed(name for name in names if self._environment.get(name) != environment.get(name)):
            notes.append(f"environment variables changed: {changed}")
        names = {*self._builtins, *named} - {"_"}
        if changed := _listed(n for n in names if self._builtins.get(n, n) is not named.get(n, n)):
            notes.append(f"builtins changed: {changed}")
        return notes


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _short(folder: str, before: str) -> str:
    if not folder:
        return "gone"
    near = os.path.relpath(folder, before) if before else folder
    return near if not near.startswith("../../..") else os.path.join("…", os.path.basename(folder))


def _listed(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:20]) + (", …" if len(found) > 20 else "")
