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
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

from ..protocol.errors import ToolCallError
from ..runtime.signals import CancelSignal
from .capturing import Capture, active, capturing
from .failures import failures_of
from .mutations import changed_names
from .python_errors import error_text
from .stand_ins import StandIns
from .stepping import Inside, Stepping, Stopper, end_children_of
from .surroundings import Surroundings
from .variables import Changes, changes, snapshot, user_variables

LONGEST = 200_000  # characters of code

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


async def run_python(shell: Any, code: str, stop: CancelSignal, *, limit_s: float) -> Finished:
    """Run ``code`` in the namespace of ``shell``, after any other code that a tool runs there.

    ``limit_s``: seconds until it is stopped. Raises ToolCallError when it can't be run here, KeyboardInterrupt when a
    person interrupts it, CancelledError when ``stop`` is cancelled or the task is.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ToolCallError("run_python runs in the kernel's main thread only; ask from an ordinary cell")
    if active() is not None:
        raise ToolCallError("code of run_python can't use run_python")
    async with _locks.setdefault(shell, asyncio.Lock()):
        run = _Run(shell, code)
        before = Surroundings(shell)
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

    def __init__(self, shell: Any, code: str) -> None:
        self.capture = Capture(shell)
        self.finished = Finished(self.capture)
        self.ran: list[ast.stmt] = []  # statements that have begun
        self._shell, self._code = shell, code
        self._tasks = asyncio.all_tasks()
        self._file = "<run_python>"
        self._stand_ins = StandIns(shell, self.capture, self._say)
        self._places = self._stand_ins.places()
        self._inside = Inside([(place, own) for place, own, _ in self._places], self._around)

    @contextmanager
    def _around(self) -> Iterator[None]:
        with failures_of(self._shell).unwatched(), self.capture.descriptors:
            yield

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
                result.error_before_exec = error
                if error is None:
                    error = await self._run(transformed, info, result)
            except BaseException as stopped:
                error = self._kept(stopped, stopper, stop)
                if result.error_before_exec is None:
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
        """Raises what the code raised, what kept it from being compiled, and what came from outside: see ``_kept``.
        No coroutine can raise StopIteration: that is given back."""
        shell = self._shell
        self._trigger("pre_execute")
        self._trigger("pre_run_cell", info)
        compiler = shell.compiler_class()  # a future statement of the code is none of the user's cells
        compiler.flags = shell.compile.flags
        with self._inside, _noted(result):
            nodes = shell.transform_ast(compiler.ast_parse(transformed, filename=self._file)).body
        statements = _modes(nodes, shell.ast_node_interactivity)
        while True:
            try:
                with self._inside:
                    awaited = self._until_await(statements, compiler, result)
            except StopIteration as error:
                result.error_in_exec = error
                return error
            if awaited is None:
                return None
            await Stepping(awaited, self._inside)

    def _until_await(self, statements: Iterator[tuple[ast.stmt, str]], compiler: Any, result: Any) -> Any:
        """Run statements up to one that awaits, and give that one. In one stretch: a process that a statement forks
        goes on with the next."""
        shell = self._shell
        for node, mode in statements:
            module = ast.Interactive([node]) if mode == "single" else ast.Module([node], [])
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if shell.autoawait else 0
            with _noted(result), compiler.extra_flags(flags):
                compiled = compiler(module, self._file, mode)
            self.ran.append(node)
            if compiled.co_flags & inspect.CO_COROUTINE:
                return eval(compiled, shell.user_global_ns, shell.user_ns)
            exec(compiled, shell.user_global_ns, shell.user_ns)
        return None

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
            self.finished.error = self._say(error)
            if isinstance(error, SystemExit) or self._stand_ins.asked_to_end:
                self.finished.error += f"\n{_NO_END}"
        error.__traceback__ = None  # else the frames keep the user's objects alive

    def _say(self, error: BaseException) -> str:
        return error_text(self._shell, error, self._code, self._file)

    def _trigger(self, event: str, *values: Any) -> None:
        with self._inside:
            self._shell.events.trigger(event, *values)

    # ---- afterwards -------------------------------------------------------------------------------------------

    def say_what_is_left(self) -> None:
        """Notes about threads, tasks and replaced streams."""
        notes = self.finished.notes
        left = self._inside.left()
        replaced = [name for place, own, name in self._places if name and left[place] is not own]
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


@contextmanager
def _noted(result: Any) -> Iterator[None]:
    """What is raised here came before any of the code could run."""
    try:
        yield
    except BaseException as error:
        result.error_before_exec = error
        raise


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
