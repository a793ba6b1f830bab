"""A path that is changed while it is used: what lies outside is never read, changed or made, however the race goes.

Another process exchanges a name of the workspace with a link that leads outside, as fast as it can, while a tool works
on that name. Every call then either works on the inside or fails.
"""

import logging
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from world import INSIDE, OUTSIDE, World

from kestrel_nb.protocol.errors import SandboxViolationError, ToolCallError
from kestrel_nb.protocol.tools import CommandPreview, Preview
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import ToolContext

ONLY_OUTSIDE = "a-name-that-lies-outside"
TRIES = 10_000
LIMIT_S = 1.0  # for the tools and places beside the main ones; a slow machine makes fewer tries there
# Exchanges pairs of names in open folders, each pair in turn, as fast as it can, with a short rest now and then: a call
# of several steps hardly ever meets the same file in each of them otherwise. The count is odd, so rests alternate.
_SWAP = """
import ctypes, os, sys, time
exchange = ctypes.CDLL(None, use_errno=True).renameat2
pairs = []
for path, other in zip(sys.argv[1::2], sys.argv[2::2]):
    folder, name = os.path.split(path)
    pairs.append((os.open(folder, os.O_RDONLY), name.encode(), other.encode()))
print("ready", flush=True)
done = 0
while all(not exchange(folder, one, folder, two, 2) for folder, one, two in pairs):  # RENAME_EXCHANGE
    done += 1
    if done % 2001 == 0:
        time.sleep(0.001)
"""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="exchanging two names in one step is Linux' own"),
    pytest.mark.timeout(400),  # ten thousand tries on a slow machine
]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: writing a file to the disk for good takes much longer than a race."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@contextmanager
def swapping(*pairs: tuple[Path, str]) -> Iterator[None]:
    """Exchange each path with another name in its folder, all the time."""
    names = [str(part) for pair in pairs for part in pair]
    swapper = subprocess.Popen([sys.executable, "-S", "-c", _SWAP, *names], stdout=subprocess.PIPE)
    try:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        yield
        assert swapper.poll() is None, "the swapper ended: nothing was raced"
    finally:
        swapper.kill()
        swapper.communicate()


class Race:
    """Calls of one tool while its path changes: how many worked, were refused at once, and failed on their way."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.before = world.outside()
        self.worked = self.refused = self.hit = 0

    @property
    def tries(self) -> int:
        return self.worked + self.refused + self.hit

    def run(self, tool: str, *, limit_s: float = math.inf, **args: Any) -> None:
        """The same call, TRIES times or for so long."""
        found = self.world.stage.tools.get(tool)
        assert found is not None
        context = _context(self.world)
        end = time.monotonic() + limit_s
        while self.tries < TRIES and time.monotonic() < end:
            try:
                result: Any = found.execute({key: self._numbered(value) for key, value in args.items()}, context)
                told = f"{result.content} {result.data}"
                self.worked += 1
            except SandboxViolationError as error:
                told = str(error)
                self.refused += 1
            except ToolCallError as error:
                told = str(error)
                self.hit += 1
            assert OUTSIDE not in told
            assert ONLY_OUTSIDE not in told

    def _numbered(self, value: Any) -> Any:
        return value.replace("NUMBER", str(self.tries % 10)) if isinstance(value, str) else value

    def check(self) -> None:
        assert self.world.outside() == self.before
        assert self.worked, f"the inside was never met in {self.tries:,} calls"


def _context(world: World, preview: Preview | None = None) -> ToolContext:
    session, signal = world.stage.session, CancelSignal()
    return ToolContext(session=session, call_id="c", signal=signal, logger=logging.getLogger("race"), preview=preview)


MAIN: dict[str, dict[str, Any]] = {
    "read_file": {"path": "d/f"},
    "write_file": {"path": "d/f", "content": "thing NUMBER"},
    "edit_file": {"path": "d/f", "old_string": "thing", "new_string": "thing NUMBER"},
    "list_dir": {"path": "d"},
}


@pytest.mark.parametrize("tool", MAIN)
def test_ten_thousand_tries_on_a_folder_and_a_file_that_are_links_now_and_then(place: Path, tool: str) -> None:
    """Calls work, are refused since a link leads outside, and fail since one came between the look and the use."""
    world = World(place, ["d/f", "d/leak => $OUT/f", "away => $OUT"])
    world.base.joinpath("OUT", ONLY_OUTSIDE).touch()
    race = Race(world)
    file = [(world.root / "d/f", "leak")] if tool != "list_dir" else []
    with swapping((world.root / "d", "away"), *file):
        race.run(tool, **MAIN[tool])
    race.check()
    assert race.tries == TRIES
    assert race.refused, "no link was there yet when a call began"
    assert race.hit, "no link came in the middle of a call"


ON_A_FOLDER: dict[str, dict[str, Any]] = {
    "file-read": {"path": "d/f"},
    "glob": {"pattern": "**/*"},
    "grep": {"pattern": "thing"},
    "file-write": {"path": "d/new/NUMBER/f", "content": "NUMBER"},
}


@pytest.mark.parametrize("tool", ON_A_FOLDER)
def test_a_folder_that_is_a_link_now_and_then(place: Path, tool: str) -> None:
    world = World(place, ["d/f", "away => $OUT"])
    world.base.joinpath("OUT", ONLY_OUTSIDE).touch()
    race = Race(world)
    with swapping((world.root / "d", "away")):
        race.run(tool, limit_s=LIMIT_S, **ON_A_FOLDER[tool])
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
def test_a_file_that_is_a_link_now_and_then(place: Path, tool: str) -> None:
    world = World(place, ["f", "away => $OUT/f"])
    race = Race(world)
    with swapping((world.root / "f", "away")):
        race.run(tool, limit_s=LIMIT_S, **ON_A_FILE[tool])
    race.check()


def test_appending_to_a_name_that_is_a_dangling_link_now_and_then(place: Path) -> None:
    world = World(place, ["f", "away => $OUT/new"])
    race = Race(world)
    with swapping((world.root / "f", "away")):
        race.run("file-write", limit_s=LIMIT_S, path="f", content="x", append=True)
    race.check()
    assert not (world.base / "OUT/new").exists()


async def test_a_command_never_starts_outside(tmp_path: Path) -> None:
    """With a card: it starts in the folder that was shown, or not at all."""
    world = World(tmp_path, ["d/f", "away => $OUT"])
    tool: Any = world.stage.tools.get("shell-exec")
    places = set()
    with swapping((world.root / "d", "away")):
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
