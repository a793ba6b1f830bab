"""A path that is changed while it is used: what lies outside is never read, changed or made, however the race goes.

Another process exchanges a name of the workspace with a link that leads outside, as fast as it can, while a tool works
on that name. Every call then either works on the inside or fails.
"""

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from world import INSIDE, OUTSIDE, World

from kestrel_nb.protocol.errors import ToolCallError
from kestrel_nb.protocol.tools import CommandPreview, Preview
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import ToolContext

TRIES = 10_000
LIMIT_S = 3  # a slow machine makes fewer tries
_SWAP = """
import ctypes, os, sys
exchange = ctypes.CDLL(None, use_errno=True).renameat2
one, two = map(os.fsencode, sys.argv[1:])
print("ready", flush=True)
while not exchange(-100, one, -100, two, 2):  # AT_FDCWD, RENAME_EXCHANGE
    pass
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="exchanging two names in one step is Linux' own")


@contextmanager
def swapping(one: Path, two: Path) -> Iterator[None]:
    """Exchange the two names all the time."""
    swapper = subprocess.Popen([sys.executable, "-S", "-c", _SWAP, str(one), str(two)], stdout=subprocess.PIPE)
    try:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        yield
        assert swapper.poll() is None, "the swapper ended: nothing was raced"
    finally:
        swapper.kill()
        swapper.communicate()


class Race:
    """Calls of one tool while its path changes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.before = world.outside()
        self.worked = self.failed = 0

    def run(self, tool: str, **args: Any) -> None:
        """The same call again and again."""
        found = self.world.stage.tools.get(tool)
        assert found is not None
        context = _context(self.world)
        end = time.monotonic() + LIMIT_S
        for number in range(TRIES):
            if time.monotonic() > end:
                break
            try:
                result: Any = found.execute({key: _numbered(value, number) for key, value in args.items()}, context)
                told = f"{result.content} {result.data}"
                self.worked += 1
            except ToolCallError as error:
                told = str(error)
                self.failed += 1
            assert OUTSIDE not in told

    def check(self) -> None:
        assert self.world.outside() == self.before
        assert self.worked, f"the inside was never met in {self.failed:,} calls"


def _numbered(value: Any, number: int) -> Any:
    return value.replace("NUMBER", str(number % 10)) if isinstance(value, str) else value


def _context(world: World, preview: Preview | None = None) -> ToolContext:
    session, signal = world.stage.session, CancelSignal()
    return ToolContext(session=session, call_id="c", signal=signal, logger=logging.getLogger("race"), preview=preview)


ON_A_FOLDER: dict[str, dict[str, Any]] = {
    "read_file": {"path": "d/f"},
    "file-read": {"path": "d/f"},
    "list_dir": {"path": "d"},
    "glob": {"pattern": "**/*"},
    "grep": {"pattern": "thing"},
    "write_file": {"path": "d/f", "content": "NUMBER"},
    "edit_file": {"path": "d/f", "old_string": "thing", "new_string": "thing NUMBER"},
    "file-write": {"path": "d/new/NUMBER/f", "content": "NUMBER"},
}


@pytest.mark.parametrize("tool", ON_A_FOLDER)
def test_a_folder_that_is_a_link_now_and_then(tmp_path: Path, tool: str) -> None:
    world = World(tmp_path, ["d/f", "away => $OUT"])
    world.root.joinpath("d/f").write_text(f"{INSIDE}\n")
    race = Race(world)
    with swapping(world.root / "d", world.root / "away"):
        race.run(tool, **ON_A_FOLDER[tool])
    race.check()


ON_A_FILE: dict[str, dict[str, Any]] = {
    "read_file": {"path": "f"},
    "file-read": {"path": "f", "encoding": "base64"},
    "grep": {"pattern": "thing"},
    "write_file": {"path": "f", "content": "NUMBER"},
    "edit_file": {"path": "f", "old_string": "thing", "new_string": "thing NUMBER"},
    "file-write": {"path": "f", "content": "NUMBER", "append": True},
}


@pytest.mark.parametrize("tool", ON_A_FILE)
def test_a_file_that_is_a_link_now_and_then(tmp_path: Path, tool: str) -> None:
    world = World(tmp_path, ["f", "away => $OUT/f"])
    race = Race(world)
    with swapping(world.root / "f", world.root / "away"):
        race.run(tool, **ON_A_FILE[tool])
    race.check()


def test_appending_to_a_name_that_is_a_dangling_link_now_and_then(tmp_path: Path) -> None:
    world = World(tmp_path, ["f", "away => $OUT/new"])
    race = Race(world)
    with swapping(world.root / "f", world.root / "away"):
        race.run("file-write", path="f", content="x", append=True)
    race.check()
    assert not (world.base / "OUT/new").exists()


async def test_a_command_never_starts_outside(tmp_path: Path) -> None:
    """With a card: it starts in the folder that was shown, or not at all."""
    world = World(tmp_path, ["d/f", "away => $OUT"])
    tool: Any = world.stage.tools.get("shell-exec")
    places = set()
    with swapping(world.root / "d", world.root / "away"):
        for number in range(40):
            try:
                shown = tool.preview({"command": "cat f", "cwd": "d"}, _context(world)) if number % 2 else None
                result = await tool.execute({"command": "cat f", "cwd": "d"}, _context(world, shown))
            except ToolCallError:
                continue
            places.add((result.data["stdout"], result.data["exitCode"]))
    assert places <= {(f"{INSIDE}\n", 0), ("", None)}, places


@pytest.mark.parametrize("tool", ["shell", "shell-exec"])
async def test_a_folder_that_was_changed_for_another_after_the_card(tmp_path: Path, tool: str) -> None:
    world = World(tmp_path, ["d/f", "e/f"])
    found: Any = world.stage.tools.get(tool)
    args = {"command": "touch made", "cwd": "d"}
    shown = found.preview(args, _context(world))
    assert isinstance(shown, CommandPreview)
    (world.root / "d").rename(world.root / "was")
    (world.root / "e").rename(world.root / "d")
    try:
        told = (await found.execute(args, _context(world, shown))).data["error"]
    except ToolCallError as error:
        told = str(error)
    assert "changed after the command was shown" in told
    assert sorted(world.inside()) == ["d/f", "was/f"]


def test_appending_from_many_sides_loses_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    tool: Any = world.stage.tools.get("file-write")
    context = _context(world)

    def append(word: str) -> None:
        for number in range(25):
            tool.execute({"path": "log", "content": f"{word}{number}\n", "append": True}, context)

    threads = [threading.Thread(target=append, args=(word,)) for word in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = world.inside()["log"].split()
    assert sorted(lines) == sorted(f"{word}{number}" for word in "abcd" for number in range(25))
    assert [line for line in lines if line[0] == "a"] == [f"a{number}" for number in range(25)]
