"""Running a command: bounded in time and output, with a small environment, and without leaving processes behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import struct
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..protocol.errors import ToolCallError

SUPERVISOR = Path(__file__).with_name("supervisor.py")
ALLOWED = (  # what programs need to find themselves; never what Jupyter or a provider keeps there
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "TMP", "TEMP"),
    *("LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
# Programs shall neither colour nor page nor ask; what wants an editor fails at once and says so.
QUIET = {
    **{"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"},
    **{"EDITOR": "false", "VISUAL": "false", "GIT_EDITOR": "false"},
}
MAX_COMMAND_BYTES = 131_071  # MAX_ARG_STRLEN of Linux, less the end mark
_START_S = 30.0  # for the supervisor to start on a busy machine
_GIVE_UP_S = 5.0  # after the supervisor should have ended
_MAX_FRAME = 1 << 20  # bytes; the supervisor's are smaller


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. ``reason`` is ended, timeout or cancelled; the totals count bytes, also those not kept."""

    exit_code: int
    reason: str
    stdout: bytes
    stderr: bytes
    stdout_total: int
    stderr_total: int


def minimal_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a command gets to see of this process' environment, and ``extra``, which wins."""
    kept = {name: os.environ[name] for name in ALLOWED if name in os.environ}
    kept.setdefault("PATH", os.defpath)
    return {**kept, **QUIET, **(extra or {})}


async def run_command(
    command: str,
    *,
    cwd: int | str,
    timeout_s: float,
    max_bytes: int,
    environment: Mapping[str, str],
    stop: Callable[[], Awaitable[None]] | None = None,
    on_output: Callable[[str, bytes], None] | None = None,
) -> CommandResult:
    """Run ``command`` in a shell with ``cwd`` (an open folder or a path) and wait for the shell to end.

    Of each stream the first ``max_bytes`` are kept and given to ``on_output`` ("o" or "e", bytes) as they come. After
    ``timeout_s`` seconds, when ``stop()`` returns, or when this coroutine is cancelled, every process it started is
    ended; the same holds for what it left in the background. Raises ToolCallError when no shell can be started, or when
    the command meddled with the supervisor.
    """
    process = await _start(command, cwd, timeout_s, max_bytes, environment)
    stopping = asyncio.ensure_future(stop()) if stop else None
    if stopping:
        stopping.add_done_callback(lambda _: _hang_up(process))
    group: list[int] = []
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_START_S) as limit:

            def begun(pid: int) -> None:
                group.append(pid)
                limit.reschedule(loop.time() + timeout_s + _GIVE_UP_S)

            return await _collect(process, on_output, begun)
    except TimeoutError:
        raise ToolCallError(
            "the command stopped the process that watches it; it was ended, its output is lost"
        ) from None
    finally:
        if stopping:
            stopping.cancel()
        await _put_away(process, group)


async def _start(command: str, cwd: int | str, timeout_s: float, max_bytes: int, env: Mapping[str, str]) -> Process:
    shell = shutil.which("bash") or shutil.which("sh")
    if os.name != "posix" or not shell:
        raise ToolCallError("shell commands need Linux or macOS with bash or sh", code="no_shell")
    order = {"command": command, "shell": shell, "cwd": cwd, "timeout_s": timeout_s, "max_bytes": max_bytes}
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(SUPERVISOR)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={"PATH": env.get("PATH", os.defpath)},
            pass_fds=(cwd,) if isinstance(cwd, int) else (),
            start_new_session=True,  # an interrupt of the Jupyter kernel goes to its group and must not tear this
        )
    except OSError as error:  # no more processes, no more memory
        raise ToolCallError(f"the command could not be started: {error.strerror}") from None
    if process.stdin:
        process.stdin.write(json.dumps({**order, "environment": dict(env)}).encode() + b"\n")
    return process


async def _collect(
    process: Process, on_output: Callable[[str, bytes], None] | None, begun: Callable[[int], None]
) -> CommandResult:
    kept = {"o": bytearray(), "e": bytearray()}
    assert process.stdout is not None
    with suppress(asyncio.IncompleteReadError):
        while True:
            kind, size = struct.unpack(">cI", await process.stdout.readexactly(5))
            if size > _MAX_FRAME:
                break
            data, name = await process.stdout.readexactly(size), kind.decode("latin-1")
            if name == "x":
                return _result(json.loads(data), bytes(kept["o"]), bytes(kept["e"]))
            if name == "p":
                begun(int(data))
            elif name in kept:
                kept[name] += data
                if on_output:
                    on_output(name, data)
            else:
                break
    raise ToolCallError("the command ended the process that watches it; what it left in other sessions may still run")


def _result(end: Mapping[str, object], stdout: bytes, stderr: bytes) -> CommandResult:
    if "problem" in end:
        raise ToolCallError(f"the command could not be started: {end['problem']}")
    return CommandResult(
        exit_code=int(str(end["exit_code"])),
        reason=str(end["reason"]),
        stdout=stdout,
        stderr=stderr,
        stdout_total=int(str(end["stdout_bytes"])),
        stderr_total=int(str(end["stderr_bytes"])),
    )


def _hang_up(process: Process) -> None:
    """Tell the supervisor to end everything, and close the control pipe, which a process forked meanwhile may hold."""
    if process.stdin and not process.stdin.is_closing():
        process.stdin.write(b"stop\n")
        process.stdin.close()
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)  # the command may have stopped it


async def _put_away(process: Process, group: list[int]) -> None:
    """Wait until the supervisor is gone, also when this task is being cancelled: nothing may be left."""
    _hang_up(process)
    waiting = asyncio.ensure_future(_drain(process))
    cancelled = False
    while not waiting.done():
        try:
            await asyncio.wait({waiting}, timeout=_GIVE_UP_S)
        except asyncio.CancelledError:
            cancelled = True
            continue
        if not waiting.done():
            process.kill()
    if process.returncode != 0:  # it did not come to its end: what is left of the command is ended here
        for pid in group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
    if cancelled:
        raise asyncio.CancelledError


async def _drain(process: Process) -> None:
    if process.stdout:
        while await process.stdout.read(65_536):
            pass
    await process.wait()
