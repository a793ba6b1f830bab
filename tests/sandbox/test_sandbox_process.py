"""Commands: they end when the shell ends, in time, without children, bounded, and with little environment."""

import asyncio
import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import living, sleeper, until

from kestrel_nb.protocol.errors import ToolCallError
from kestrel_nb.sandbox.process import CommandResult, minimal_environment, run_command


async def run(
    command: str, folder: Path, *, timeout_s: float = 20, max_bytes: int = 10_000, **more: Any
) -> CommandResult:
    more.setdefault("environment", minimal_environment())
    return await run_command(command, cwd=str(folder), timeout_s=timeout_s, max_bytes=max_bytes, **more)


async def test_m01_a_background_child_does_not_hold_the_call(tmp_path: Path, mark: str) -> None:
    started = time.monotonic()
    result = await run(f"{sleeper(mark)} & echo started", tmp_path)
    assert (result.exit_code, result.reason, result.stdout) == (0, "ended", b"started\n")
    assert time.monotonic() - started < 8
    assert not living(mark)


@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' MARK & wait",
        "setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done' MARK & wait",
        "nohup setsid SLEEPER >/dev/null 2>&1 & SLEEPER",
        "(setsid sh -c '(setsid SLEEPER &) ; SLEEPER' MARK &) ; SLEEPER",
        "trap '' TERM; SLEEPER; SLEEPER",
    ],
)
async def test_m02_a_timeout_leaves_no_process(tmp_path: Path, mark: str, command: str) -> None:
    # A double fork with a new session, a child that ignores the signal, one that hides behind nohup.
    command = command.replace("SLEEPER", sleeper(mark).replace("'", '"')).replace("MARK", mark)
    started = time.monotonic()
    result = await run(f"echo before; {command}", tmp_path, timeout_s=1)
    assert (result.exit_code, result.reason, result.stdout) == (143, "timeout", b"before\n")
    assert time.monotonic() - started < 8
    assert not living(mark)


async def test_a_child_of_its_own_session_ends_with_the_command(tmp_path: Path, mark: str) -> None:
    result = await run(f"setsid {sleeper(mark)} >/dev/null 2>&1 & sleep 0.2; exit 3", tmp_path)
    assert (result.exit_code, result.reason) == (3, "ended")
    assert not living(mark)


async def test_stopping_keeps_what_came_and_leaves_no_process(tmp_path: Path, mark: str) -> None:
    stop = asyncio.Event()

    async def wait() -> None:
        await stop.wait()

    result = await run(
        f"echo here; setsid {sleeper(mark)} & {sleeper(mark)}",
        tmp_path,
        stop=wait,
        on_output=lambda stream, data: stop.set(),
    )
    assert (result.exit_code, result.reason, result.stdout) == (143, "cancelled", b"here\n")
    assert not living(mark)


async def test_stopping_at_once_starts_nothing_or_ends_it(tmp_path: Path, mark: str) -> None:
    async def stopped() -> None:
        return None

    for size in (0, 120_000):  # the order fits into the pipe, or does not
        result = await run(f"{sleeper(mark)}; : {'x' * size}", tmp_path, stop=stopped)
        assert (result.exit_code, result.reason, result.stdout) == (143, "cancelled", b"")
        assert not living(mark)


async def test_cancelling_the_task_leaves_no_process(tmp_path: Path, mark: str) -> None:
    task = asyncio.ensure_future(run(f"setsid {sleeper(mark)} & {sleeper(mark)}", tmp_path))
    await asyncio.to_thread(until, lambda: len(living(mark)) >= 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not living(mark)


def test_the_command_ends_when_its_owner_is_killed(tmp_path: Path, mark: str) -> None:
    code = (
        "import asyncio, sys\nfrom kestrel_nb.sandbox.process import *\n"
        "asyncio.run(run_command(sys.argv[1], cwd='.', timeout_s=60, max_bytes=9, environment=minimal_environment()))"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, f"setsid {sleeper(mark)} & {sleeper(mark)}"], cwd=tmp_path)
    until(lambda: len(living(mark)) >= 4)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    until(lambda: not living(mark))


async def test_m04_m05_both_streams_are_read_and_capped(tmp_path: Path) -> None:
    flood = f"{sys.executable} -c \"import sys; sys.stderr.write('e' * 2_000_000); print('done')\""
    result = await run(flood, tmp_path)
    assert (result.exit_code, result.stdout) == (0, b"done\n")
    assert (len(result.stderr), result.stderr_total) == (10_000, 2_000_000)
    result = await run("head -c 50000000 /dev/zero", tmp_path)
    assert (result.exit_code, len(result.stdout), result.stdout_total) == (0, 10_000, 50_000_000)


async def test_floods_end_in_time_and_do_not_stop_the_loop(tmp_path: Path) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.02)
            beats += 1

    heart = asyncio.ensure_future(beat())
    result = await run("yes & seq 1 999999999", tmp_path, timeout_s=1)
    heart.cancel()
    assert (result.exit_code, result.reason, len(result.stdout)) == (143, "timeout", 10_000)
    assert result.stdout_total > 1_000_000
    assert beats > 10


@pytest.mark.parametrize("command", ["cat", "read -p 'name? ' x; echo \"[$x]\"", "python3 -c 'input()'", "git commit"])
async def test_m05_nothing_waits_for_input(tmp_path: Path, command: str) -> None:
    started = time.monotonic()
    result = await run(command, tmp_path)
    assert result.reason == "ended"
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 128", 128), ("nosuchcmd", 127), ("kill -9 $$", 137), ("true", 0), ("exec sh -c 'exit 7'", 7)],
)
async def test_exit_codes(tmp_path: Path, command: str, code: int) -> None:
    assert (await run(command, tmp_path)).exit_code == code


async def test_the_environment_is_an_allow_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "JUPYTER_TOKEN", "JPY_SESSION_NAME", "DATABASE_URL"):
        monkeypatch.setenv(name, f"secret-of-{name}")
    result = await run("env; cat /proc/$PPID/environ", tmp_path)
    assert b"secret-of" not in result.stdout
    assert b"PATH=" in result.stdout
    own = await run("echo $MINE $PATH", tmp_path, environment=minimal_environment({"MINE": "yes", "PATH": "/bin"}))
    assert own.stdout == b"yes /bin\n"


async def test_many_at_once(tmp_path: Path) -> None:
    results = await asyncio.gather(*(run(f"sleep 0.2; echo {n}", tmp_path) for n in range(12)))
    assert [int(result.stdout) for result in results] == list(range(12))


async def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ToolCallError, match="could not be started"):
        await run("true", tmp_path / "gone")


async def test_output_left_in_the_pipe_by_a_short_command(tmp_path: Path) -> None:
    for _ in range(10):
        result = await run("printf '%09000d' 1; printf '%09000d' 2 >&2", tmp_path)
        assert (result.stdout_total, result.stderr_total) == (9000, 9000)
        assert (len(result.stdout), len(result.stderr)) == (9000, 9000)


async def test_commands_are_passed_on_to_the_letter(tmp_path: Path) -> None:
    text = "ü \\ $HOME `x` \"q\" 'a' \n\t{}%"
    result = await run(f"cat <<'END'\n{text}\nEND", tmp_path)
    assert result.stdout.decode() == f"{text}\n"
    assert json.loads(json.dumps(result.stdout.decode())) == f"{text}\n"


async def test_a_command_that_kills_its_watcher_is_ended_too(tmp_path: Path, mark: str) -> None:
    with pytest.raises(ToolCallError, match="ended the process that watches it"):
        await run(f"{sleeper(mark)} & kill -9 $PPID; {sleeper(mark)}", tmp_path)
    await asyncio.to_thread(until, lambda: not living(mark))


@pytest.mark.parametrize("meddling", ["kill -STOP $PPID", "(while :; do kill -STOP $PPID; done) &"])
async def test_a_command_that_stops_its_watcher_is_ended_too(tmp_path: Path, mark: str, meddling: str) -> None:
    with pytest.raises(ToolCallError, match="stopped the process that watches it"):
        await run(
            f"{meddling} {sleeper(mark)}" if meddling.endswith("&") else f"{meddling}; {sleeper(mark)}",
            tmp_path,
            timeout_s=0.5,
        )
    await asyncio.to_thread(until, lambda: not living(mark))


@pytest.mark.parametrize("frame", ["z\\0\\0\\0\\1z", "o\\377\\377\\377\\377", "\\377\\377\\377\\377\\377"])
async def test_a_command_that_speaks_for_its_watcher_is_ended(tmp_path: Path, mark: str, frame: str) -> None:
    with pytest.raises(ToolCallError, match="the process that watches it"):
        await run(f"printf '{frame}' >/proc/$PPID/fd/1; {sleeper(mark)}", tmp_path)
    await asyncio.to_thread(until, lambda: not living(mark))


async def test_a_process_that_can_not_be_made(tmp_path: Path) -> None:
    await run("true", tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(ToolCallError, match="could not be started: Too many open files"):
            await run("true", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (await run("true", tmp_path)).exit_code == 0
