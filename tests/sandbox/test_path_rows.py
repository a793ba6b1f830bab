"""Every row of the path corpus through every tool that takes a path: nothing outside is read, changed or made."""

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from world import INSIDE, LISTERS, READERS, SHELLS, TOOLS, WRITERS, World, failed, is_violation, reveals, told

from kestrel_nb.protocol.sessions import PermissionRule
from kestrel_nb.runtime.tool_calls import CallOutcome

DATA = Path(__file__).parent.parent / "data" / "path"
ROWS = [json.loads(line) for line in (DATA / "rows.jsonl").read_text("utf-8").splitlines()]
EXCLUDED = json.loads((DATA / "excluded.json").read_text("utf-8"))
OF_THEIR_OWN = ("path-O036", "path-O037", "path-O038", "path-O040", "path-O056", "path-O057")
PLAIN = [row for row in ROWS if row["id"] not in (*EXCLUDED, *OF_THEIR_OWN)]
BY_ID = {row["id"]: row for row in ROWS}
NO_NAME = ("path-O017", "path-O044", "path-O052", "path-O053")  # no file can have such a name: nor be written

Judge = Callable[[str, CallOutcome, World], bool]


def test_every_row_is_run_or_excluded() -> None:
    assert len(PLAIN) + len(OF_THEIR_OWN) + len(EXCLUDED) == len(BY_ID) == len(ROWS) == 61
    assert {*EXCLUDED, *OF_THEIR_OWN} < set(BY_ID)


def works(tool: str, outcome: CallOutcome, world: World) -> bool:
    return outcome.state == "executed" and not failed(outcome)


def gives_content(tool: str, outcome: CallOutcome, world: World) -> bool:
    return tool not in READERS or (works(tool, outcome, world) and INSIDE in told(outcome))


def writes_inside(tool: str, outcome: CallOutcome, world: World) -> bool:
    wanted = "b" if tool == "edit_file" else "w"
    return tool not in WRITERS or (works(tool, outcome, world) and wanted in world.inside().values())


def is_no_write(tool: str, outcome: CallOutcome, world: World) -> bool:
    return failed(outcome) or tool not in WRITERS


def is_no_read(tool: str, outcome: CallOutcome, world: World) -> bool:
    return failed(outcome) or tool in WRITERS


def is_not_found(tool: str, outcome: CallOutcome, world: World) -> bool:
    return tool in WRITERS or (failed(outcome) and "not found" in told(outcome) and not is_violation(outcome))


JUDGES: dict[str, Judge] = {
    "content": gives_content,
    "written_inside": writes_inside,
    "written": writes_inside,
    "SANDBOX_VIOLATION": lambda tool, outcome, world: is_violation(outcome),
    "error_message": lambda tool, outcome, world: failed(outcome),
    "error message": lambda tool, outcome, world: failed(outcome),
    "not found": is_not_found,
    "not found inside root": is_not_found,
    "not found on POSIX; violation on Windows": is_not_found,
    "not found on case-sensitive fs": is_not_found,
    "error on Windows": is_not_found,
    "listing": lambda tool, outcome, world: tool != "list_dir" or "d  (link)" in outcome.content.split("\n"),
}
# "error or ..." and the like: both are right, and what holds for every call is checked in any case.
FREE = (
    "error_or_inside",
    "SANDBOX_VIOLATION or inside",
    "error or content inside",
    "error or content of f",
    "terminates",
)


def judge_of(row: dict[str, Any]) -> Judge:
    wanted = row["expect"]["outcome"]
    if row["id"] in NO_NAME:
        return JUDGES["error message"]
    if wanted == "error":
        return is_no_write if "edit_file" in row["tool"] else is_no_read
    return works_or_not if wanted in FREE else JUDGES[wanted]


def works_or_not(tool: str, outcome: CallOutcome, world: World) -> bool:
    return True


@pytest.mark.parametrize("row", PLAIN, ids=lambda row: row["id"])
async def test_row(tmp_path: Path, row: dict[str, Any]) -> None:
    """Each tool has a world of its own, since some of them write."""
    given = row["input"]
    fs = [*given.get("fs", ()), *([row["expect"]["reads"]] if "reads" in row["expect"] else [])]
    path = given.get("shell_cwd", given.get("path", "."))
    for tool in TOOLS:
        world = World(tmp_path / tool, fs, linked=given.get("root_is_link", False))
        before = world.outside()
        if tool == "edit_file":
            await world.call("write_file", world.text(path), content="a")
        outcome = await world.call(tool, world.text(path))
        assert judge_of(row)(tool, outcome, world), (tool, outcome.content)
        check(world, outcome, before)
        assert "$" in path or str(world.base) not in outcome.content or tool in SHELLS


def check(world: World, outcome: CallOutcome, before: str) -> None:
    """What holds for every call."""
    assert not reveals(outcome)
    assert "Traceback" not in told(outcome)
    assert world.outside() == before
    assert not [name for name in world.inside() if ".tmp" in name]


# ---- rows with a form of their own ------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["path-O036", "path-O037"])
@pytest.mark.parametrize("more", ["", "/*", "/**/*.txt"])
async def test_patterns_that_leave(tmp_path: Path, id: str, more: str) -> None:
    world = World(tmp_path, ["a/f", "f"])
    for tool, args in (
        ("glob", {"pattern": BY_ID[id]["input"]["pattern"] + more}),
        ("grep", {"pattern": "thing", "glob": BY_ID[id]["input"]["pattern"] + more}),
    ):
        outcome = await world.call(tool, **args)
        assert failed(outcome) or outcome.data["rows"] == []
        assert not reveals(outcome)


async def test_path_o038_a_search_does_not_go_through_links(tmp_path: Path) -> None:
    given = BY_ID["path-O038"]["input"]
    world = World(tmp_path, [*given["fs"], "out => $OUT", "in/f", "loop => ."])
    outcome = await world.call("grep", pattern=given["pattern"], glob=given["glob"])
    assert outcome.data["rows"] == []
    found = await world.call("grep", pattern="thing", glob="**")
    assert [row[:1] for row in found.data["rows"]] == [["in/f"]]
    assert not reveals(found)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/stdin", "/dev/tty", "/proc/self/mem"])
async def test_path_o040_devices(tmp_path: Path, device: str) -> None:
    world = World(tmp_path, restrict=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for tool in TOOLS:
        assert failed(await world.call(tool, device)), tool
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


@pytest.mark.parametrize("path", [".g\u200cit/config", ".git\u200b/config", ".\u00adgit/config"])
async def test_path_o056_names_that_only_look_alike(tmp_path: Path, path: str) -> None:
    """A rule that denies one folder: another name that looks like it is another folder, and stays one."""
    world = World(tmp_path, [".git/config"])
    world.stage.session.add_rule(PermissionRule(tool="*", action="deny", match=".git/**"))
    for tool in WRITERS[:3]:
        assert (await world.call(tool, ".git/config")).state == "skipped"
        assert not failed(await world.call(tool, path))
    assert world.inside()[".git/config"] == f"{INSIDE}\n"
    assert world.inside()[path] == "ww"


# ---- further kinds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["\ud800", "a\udcff/b", "f\0", "/".join(["d"] * 3000), "n" * 256, "ü" * 128, "d/" + "n" * 300, " ", "\n"],
    ids=lambda path: f"{path[:8]!a}-{len(path)}",
)
async def test_names_that_no_file_can_have(tmp_path: Path, path: str) -> None:
    world = World(tmp_path, ["f"])
    for tool in TOOLS:
        outcome = await world.call(tool, path)
        assert failed(outcome), tool
        assert not is_violation(outcome)
        assert len(outcome.content) < 800
        told(outcome).encode("utf-8")
    assert world.inside() == {"f": f"{INSIDE}\n"}


@pytest.mark.parametrize(
    "name",
    ["n" * 255, "ü" * 127, "a b", "-rf", "*", "[f]", "{f}", "$HOME", "~", "...", "..f", "f\n", "\u202ef", "%2e%2e"],
)
async def test_names_that_files_can_have(tmp_path: Path, name: str) -> None:
    world = World(tmp_path)
    for folder in ("", "sub/", "./sub/..hidden/"):
        for tool in ("write_file", "file-write"):
            assert not failed(await world.call(tool, folder + name, content="a")), tool
        assert not failed(await world.call("file-append", folder + name, content="z"))
        assert not failed(await world.call("edit_file", folder + name))
        assert (await world.call("file-read", folder + name)).data["content"] == "bz"
        assert (await world.call("read_file", folder + name)).data["rows"] == [[1, "bz"]]
    assert len(world.inside()) == 3


@pytest.mark.parametrize(
    "link", ["d => $OUT", "d => ../OUT", "d => /proc/self/root$OUT", "e => $OUT\nd => e", "d => ../ROOT/../OUT"]
)
@pytest.mark.parametrize("path", ["d/new", "d/f", "d/deep/new", "d", "d/.", "d/../d/f", "./d//f", "x/../d/new"])
async def test_new_and_old_files_below_a_linked_folder(tmp_path: Path, link: str, path: str) -> None:
    world = World(tmp_path, link.split("\n"))
    before = world.outside()
    for tool in TOOLS:
        outcome = await world.call(tool, path)
        assert is_violation(outcome), (tool, outcome.content)
        check(world, outcome, before)


async def test_slashes_at_the_end(tmp_path: Path) -> None:
    world = World(tmp_path, ["f", "d/", "l => f"])
    before = world.outside()
    for path in ("f/", "d/", "new/", "l/"):
        for tool in WRITERS:
            outcome = await world.call(tool, path)
            assert failed(outcome), (tool, path)
            check(world, outcome, before)
    assert world.inside() == {"f": f"{INSIDE}\n"}
    for tool in (*LISTERS, "grep", *SHELLS):
        assert not failed(await world.call(tool, "d/"))


async def test_hard_links_cannot_be_told_apart_but_are_never_written_through(tmp_path: Path) -> None:
    """A hard link is a file of the workspace like any other; a change makes a file of its own in its place."""
    for tool in WRITERS:
        world = World(tmp_path / tool)
        os.link(world.base / "OUT/f", world.root / "f")
        before = world.outside()
        more = {"old_string": "thing"} if tool == "edit_file" else {}
        assert not failed(await world.call(tool, "f", **more))
        assert world.outside() == before


async def test_a_file_of_another_kind_is_not_opened(tmp_path: Path) -> None:
    world = World(tmp_path, ["fifo FIFO", "l => fifo", "d/"])
    for path in ("fifo", "l", "d/../fifo"):
        for tool in TOOLS:
            assert failed(await world.call(tool, path)), tool
    for path in ("fifo/x", "fifo/x/y"):
        for tool in TOOLS:
            assert failed(await world.call(tool, path)), tool


# ---- what went wrong elsewhere ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sibling", ["ROOT-private/secret.txt", "ROOT_private/target"])
@pytest.mark.parametrize("start", ["../", "$PARENT/", "./a/../../", "$ABS/../", "missing/../../", "$ABS/../ROOT/../"])
async def test_l01_a_sibling_that_shares_the_prefix(tmp_path: Path, sibling: str, start: str) -> None:
    world = World(tmp_path, ["a/", "ok.txt"])
    before = world.outside()
    for tool in TOOLS:
        for path in (start + sibling, (start + sibling).rpartition("/")[0]):
            outcome = await world.call(tool, world.text(path))
            assert is_violation(outcome), (tool, path, outcome.content)
            check(world, outcome, before)
    assert INSIDE in told(await world.call("file-read", world.text("$ABS/ok.txt")))


async def test_l02_links_that_lead_outside_and_inside(tmp_path: Path) -> None:
    links = ["leak => /etc/passwd", "d => /etc", "own => in/f", "folder => in", "in/f"]
    world = World(tmp_path, links)
    before = world.outside()
    for tool in TOOLS:
        for path in ("leak", "d", "d/hostname", "d/new"):
            outcome = await world.call(tool, path)
            assert is_violation(outcome), (tool, path, outcome.content)
            check(world, outcome, before)
    for tool, args in (("glob", {"pattern": "**/*"}), ("grep", {"pattern": "."}), ("list_dir", {})):
        outcome = await world.call(tool, **args)
        assert not failed(outcome)
        check(world, outcome, before)
    for tool in READERS:
        for path in ("own", "folder/f") if tool != "grep" else ("folder",):
            assert INSIDE in told(await world.call(tool, path)), (tool, path)
