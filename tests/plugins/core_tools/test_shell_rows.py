"""Every row of the shell corpus through both shell tools: they end in time, bounded, alone, and keep no secret."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from processes import living, sleeper, until
from world import World

from kestrel_nb.plugins.builtin_tools.config import BuiltInToolConfig
from kestrel_nb.plugins.builtin_tools.shell_exec import ShellExec
from kestrel_nb.runtime.tool_calls import CallOutcome

DATA = Path(__file__).parents[2] / "data" / "shell"
ROWS = {row["id"]: row for row in map(json.loads, (DATA / "rows.jsonl").read_text("utf-8").splitlines())}
EXCLUDED = json.loads((DATA / "excluded.json").read_text("utf-8"))
CAP = 100_000 + 100  # characters of a stream, and the line about the rest
both = pytest.mark.parametrize("tool", ["shell", "shell-exec"])


class Ended(NamedTuple):
    """What both tools tell of a command, under one name each."""

    stdout: str
    stderr: str
    exit_code: int | None
    timed_out: bool
    error: str | None
    elapsed_s: float


async def run(world: World, tool: str, id: str = "", **more: Any) -> Ended:
    """The row ``id``, or the command given, through one of the tools."""
    given = {**(ROWS[id]["input"] if id else {}), **more}
    limit = given.pop("timeout", None)
    args = {name: value for name, value in given.items() if name in ("command", "env", "cwd")}
    args |= {"timeout" if tool == "shell-exec" else "timeout_ms": limit} if limit else {}
    began = time.monotonic()
    outcome = await world.call(tool, **args)
    return ended(outcome, time.monotonic() - began)


def ended(outcome: CallOutcome, elapsed_s: float = 0) -> Ended:
    data = outcome.data or {"stdout": "", "stderr": "", "exitCode": None, "timedOut": False, "error": outcome.content}
    code, late = data.get("exitCode", data.get("exit_code")), data.get("timedOut", data.get("timed_out"))
    return Ended(data["stdout"], data["stderr"], code, bool(late), data.get("error"), elapsed_s)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@asynccontextmanager
async def heartbeat(limit_s: float = 1.0) -> AsyncIterator[None]:
    """Fails when the event loop stood still for longer than ``limit_s``."""
    gaps = [0.0]

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - before - 0.01)

    heart = asyncio.ensure_future(beat())
    try:
        yield
    finally:
        heart.cancel()
        sys.__stdout__.write(f"the longest pause of the event loop was {max(gaps):.3f} s\n") if sys.__stdout__ else 0
    assert max(gaps) < limit_s, f"the event loop stood still for {max(gaps):.2f} s"


@pytest.fixture
def growth() -> Iterator[list[int]]:
    """Fails when the memory of this process grew by more than 32 MiB at its highest."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024


def test_every_row_is_run_or_excluded() -> None:
    source = Path(__file__).read_text("utf-8")
    held = [id for id in ROWS if f"def test_{id.lower().replace('-', '_')}_" in source]
    assert {*held, *EXCLUDED} == set(ROWS)
    assert len(held) + len(EXCLUDED) == len(ROWS) == 18


@both
async def test_shell_o001_a_child_in_the_background(world: World, tool: str) -> None:
    result = await run(world, tool, "shell-O001")
    assert (result.stdout, result.exit_code, result.timed_out, result.error) == ("done\n", 0, False, None)
    assert result.elapsed_s < 4


@both
async def test_shell_o002_waiting_for_a_child(world: World, tool: str) -> None:
    result = await run(world, tool, "shell-O002")
    assert (result.timed_out, result.exit_code) == (True, 143)
    assert result.error == ("Process timed out after 1000ms" if tool == "shell-exec" else None)
    assert result.elapsed_s < 5


@both
async def test_shell_o003_a_child_behind_nohup(world: World, tool: str) -> None:
    result = await run(world, tool, "shell-O003")
    assert result.timed_out
    await asyncio.sleep(max(0.0, 4.5 - result.elapsed_s))
    assert not (world.root / "M").exists()


@both
async def test_shell_o004_a_flood_is_capped_while_it_is_read(world: World, tool: str, growth: list[int]) -> None:
    async with heartbeat():
        result = await run(world, tool, "shell-O004")
    assert result.timed_out
    assert result.stdout.startswith("y\ny\n")
    assert len(result.stdout) <= CAP
    assert result.stdout.splitlines()[-1].startswith("[cut: ")


@both
async def test_shell_o005_a_binary_flood(world: World, tool: str, growth: list[int]) -> None:
    async with heartbeat():
        result = await run(world, tool, "shell-O005")
    assert (result.exit_code, result.timed_out) == (0, False)
    assert len(result.stdout) <= CAP
    assert "100,000,000 bytes" in result.stdout


@both
async def test_shell_o006_bytes_that_are_no_text(world: World, tool: str) -> None:
    assert (await run(world, tool, "shell-O006")).stdout == "\ufffd\ufffd"


@both
@pytest.mark.parametrize("id", ["shell-O007", "shell-O008"])
async def test_shell_o007_shell_o008_nothing_waits_for_input(world: World, tool: str, id: str) -> None:
    result = await run(world, tool, id)
    assert not result.timed_out
    assert (result.exit_code == 0) is (id == "shell-O007")
    assert result.elapsed_s < 10


@both
async def test_shell_o008_input_ends_at_once(world: World, tool: str) -> None:
    assert "EOFError" in (await run(world, tool, "shell-O008")).stderr


@both
async def test_shell_o009_secrets_are_not_passed_on(world: World, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS["shell-O009"]
    more = {"JPY_PARENT_PID": "jpy-1", "DATABASE_URL": "jpy-2", "GITHUB_TOKEN": "jpy-3", "PYTHONPATH": "jpy-4"}
    for name, value in {**row["input"]["parent_env"], **more}.items():
        monkeypatch.setenv(name, value)
    result = await run(world, tool, "shell-O009", command="env; tr '\\0' '\\n' </proc/$PPID/environ")
    assert "PATH=" in result.stdout
    assert not [text for text in [*row["expect"]["stdout_lacks"], "jpy-", *more] if text in result.stdout]


async def test_shell_o010_variables_of_the_call(world: World) -> None:
    """Those of the call win over those of the configuration, and both over the small environment."""
    result = await run(world, "shell-exec", "shell-O010")
    assert result.stdout == f"/evil{os.environ['HOME']}\n"
    config = BuiltInToolConfig(shell_env={"PATH": "/configured", "ADDED": "yes", "TERM": "vt"})
    world.stage.tools.register(ShellExec(config), replace=True)
    assert (await run(world, "shell-exec", command="echo $PATH $ADDED $TERM")).stdout == "/configured yes vt\n"
    own = await run(world, "shell-exec", command="echo $PATH $ADDED", env={"ADDED": "no", "ü": "1"})
    assert own.stdout == "/configured no\n"


@both
async def test_shell_o011_shell_o012_exit_codes(world: World, tool: str) -> None:
    result = await run(world, tool, "shell-O011")
    assert (result.exit_code, result.error) == (128, None)
    assert (await run(world, tool, "shell-O012")).exit_code == 127


@both
async def test_shell_o012_a_command_that_is_not_there(world: World, tool: str) -> None:
    assert "nosuchcmd" in (await run(world, tool, "shell-O012")).stderr


@both
async def test_a_tree_of_processes_ends_with_its_time_limit(world: World, tool: str, mark: str) -> None:
    """What a fork bomb is made of, but with an end: 127 processes that all wait."""
    leaf = sleeper(mark).replace("'", '"')
    grow = f"f() {{ [ $1 -gt 0 ] && {{ f $(($1-1)) & f $(($1-1)) & }}; exec sleep 60 {mark}; }}; f 6 & {leaf}"
    result = await run(world, tool, command=f"bash -c '{grow.replace(leaf, 'sleep 60')}' {mark}", timeout=1500)
    assert result.timed_out
    assert not living(mark)


@both
async def test_shell_o014_shell_o015_commands_that_can_not_be(world: World, tool: str) -> None:
    assert "NUL" in str((await run(world, tool, "shell-O014")).error)
    assert "command: " in str((await run(world, tool, "shell-O015")).error)


@both
@pytest.mark.parametrize(
    ("command", "says"),
    [("echo a\0b", "NUL"), ("", "command"), (" \n ", "empty"), ("echo \ud800", "Unicode"), ("#" * 140_000, "long")],
    ids=["nul", "empty", "space", "surrogate", "long"],
)
async def test_shell_o014_commands_with_what_no_command_can_hold(
    world: World, tool: str, command: str, says: str
) -> None:
    result = await run(world, tool, command=command)
    assert result.exit_code is None
    assert says in str(result.error)
    assert "Traceback" not in str(result.error)


@both
async def test_shell_o015_an_empty_command(world: World, tool: str) -> None:
    assert "command: " in str((await run(world, tool, "shell-O015")).error)


@pytest.mark.parametrize("tool", ["shell", "shell-exec"])
def test_shell_o016_an_interrupt_of_the_process_group_ends_the_command(tmp_path: Path, tool: str, mark: str) -> None:
    """SIGINT to the whole group, as Jupyter sends it; and again, as an impatient person does."""
    owner = start_owner(tmp_path, tool, f"{sleeper(mark)} & setsid {sleeper(mark)}", mark)
    os.killpg(owner.pid, signal.SIGINT)
    time.sleep(0.05)
    os.killpg(owner.pid, signal.SIGINT)
    owner.communicate(timeout=20)
    assert owner.returncode != 0
    until(lambda: not living(mark))
    assert not living(mark)


@pytest.mark.parametrize("tool", ["shell", "shell-exec"])
@pytest.mark.parametrize("forked", [False, True], ids=["alone", "with a forked child"])
def test_a_command_ends_when_the_process_of_its_agent_is_killed(
    tmp_path: Path, tool: str, forked: bool, mark: str
) -> None:
    """A child that was forked meanwhile holds every pipe of its parent open."""
    command = f"nohup setsid {sleeper(mark)} & trap '' TERM HUP; {sleeper(mark)}; {sleeper(mark)}"
    owner = start_owner(tmp_path, tool, command, mark, forked=forked)
    child = int(owner.stdout.readline()) if owner.stdout and forked else 0
    owner.kill()
    owner.wait()
    try:
        until(lambda: not living(mark))
        assert not living(mark)
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
        owner.communicate()


OWNER = """
import asyncio, os, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from world import World

async def main():
    world = World(Path(sys.argv[2]))
    call = asyncio.ensure_future(world.call(sys.argv[3], command=os.environ["COMMAND"]))
    if len(sys.argv) > 4:
        await asyncio.sleep(0.5)
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
        print(child, flush=True)
    await call

asyncio.run(main())
"""


def start_owner(folder: Path, tool: str, command: str, mark: str, *, forked: bool = False) -> subprocess.Popen[bytes]:
    """A process of its own group that runs ``command``, once the command is running."""
    tests = str(Path(__file__).parents[2])
    more = ["forked"] if forked else []
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, tests, str(folder / "w"), tool, *more],
        env={**os.environ, "COMMAND": command},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    end = time.monotonic() + 30
    while not living(mark):
        assert time.monotonic() < end
        assert owner.poll() is None
        time.sleep(0.05)
    return owner


@both
async def test_shell_o017_many_at_once(world: World, tool: str) -> None:
    row = ROWS["shell-O017"]["input"]
    async with heartbeat():
        results = await asyncio.gather(
            *(run(world, tool, command=row["command"].replace("$i", str(n))) for n in range(row["parallel"]))
        )
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(row["parallel"])]
    assert max(result.elapsed_s for result in results) < 20


@both
async def test_shell_o018_terminal_codes(world: World, tool: str) -> None:
    """The model reads the text without them, and the data has what the command wrote."""
    outcome = await world.call(tool, command=f"{ROWS['shell-O018']['input']['command']}; printf 'red\\033[0m'")
    assert outcome.data["stdout"] == "\033]0;pwn\007\033[2J\nred\033[0m"
    assert "red" in outcome.content
    assert not [word for word in ("\033", "\\u001b", "pwn", "[2J") if word in outcome.content]


# ---- stopping -----------------------------------------------------------------------------------------------------

STUBBORN = [
    "SLEEPER",
    "trap '' TERM INT HUP; SLEEPER; SLEEPER; SLEEPER",
    "setsid SLEEPER & SLEEPER",
    "(setsid sh -c '(setsid SLEEPER &) ; SLEEPER' &) ; nohup SLEEPER >/dev/null 2>&1",
    "yes | SLEEPER",
]


@both
@pytest.mark.parametrize("command", STUBBORN)
async def test_m02_stopping_ends_within_a_second_and_leaves_no_process(
    world: World, tool: str, command: str, mark: str
) -> None:
    """Stop, as a person presses it: nothing is left, whatever the command did to stay."""
    command = command.replace("SLEEPER", sleeper(mark).replace("'", '"'))
    async with heartbeat():
        task = asyncio.ensure_future(world.call(tool, command=command))
        await asyncio.to_thread(until, lambda: bool(living(mark)))
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        elapsed = time.monotonic() - began
    assert not living(mark)
    assert elapsed < 3


async def test_m02_a_timeout_of_a_stubborn_child_keeps_what_came(world: World, mark: str) -> None:
    child = f"bash -c 'trap \"\" TERM; while :; do sleep 1; done' {mark}"
    for tool in ("shell", "shell-exec"):
        result = await run(world, tool, command=f"echo before; echo err >&2; {child} & wait", timeout=1000)
        assert (result.stdout, result.stderr, result.exit_code, result.timed_out) == ("before\n", "err\n", 143, True)
        assert not living(mark)


# ---- what went wrong elsewhere ------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "started", ["sleep 30 & echo started", "(sleep 30; echo late) & echo started", "yes >&2 & echo started"]
)
async def test_m01_what_stays_in_the_background_does_not_hold_the_call(world: World, tool: str, started: str) -> None:
    result = await run(world, tool, command=started, timeout=15_000)
    assert (result.stdout, result.exit_code, result.timed_out) == ("started\n", 0, False)
    assert result.elapsed_s < 8


@both
async def test_m04_bytes_that_are_no_text_are_stored_and_sent(world: World, tool: str) -> None:
    outcome = await world.call(
        tool, command="printf 'caf\\xe9 \\xb2\\n'; head -c 64 /dev/urandom; printf '\\xed\\xa0\\x80'"
    )
    assert ended(outcome).stdout.startswith("caf\ufffd \ufffd\n")
    for text in (outcome.content, json.dumps(outcome.data, ensure_ascii=False)):
        text.encode("utf-8")


@both
@pytest.mark.parametrize("command", ["cat", "read -p 'name? ' x; echo $x", "git init -q . && git commit --allow-empty"])
async def test_m05_nothing_waits_for_a_person(world: World, tool: str, command: str) -> None:
    result = await run(world, tool, command=command, timeout=20_000)
    assert not result.timed_out
    assert result.elapsed_s < 15


@both
async def test_m05_much_on_one_stream_does_not_hold_the_other(world: World, tool: str) -> None:
    flood = "import sys; sys.stderr.write('e' * 2_000_000); print('done'); sys.stderr.write('f' * 2_000_000)"
    result = await run(world, tool, command=f'{sys.executable} -S -c "{flood}"', timeout=20_000)
    assert (result.stdout, result.exit_code) == ("done\n", 0)
    assert len(result.stderr) <= CAP
    assert "of 4,000,000 bytes" in result.stderr
