"""Where paths lead: whole segments, links, names that can't be, and swaps between check and use."""

import ctypes
import os
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from kestrel_nb.protocol.errors import SandboxViolationError, ToolCallError
from kestrel_nb.sandbox.paths import resolve_inside
from kestrel_nb.sandbox.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "a/b").mkdir(parents=True)
    (folder / "ok.txt").write_text("ok")
    (folder / "..hidden").write_text("hidden")
    (tmp_path / "ws-private").mkdir()
    (tmp_path / "ws-private/secret.txt").write_text("secret")
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "../ws-private/secret.txt",
        "{parent}/ws-private/secret.txt",
        "./a/../../ws-private/secret.txt",
        "..",
        "../",
        "a/../..",
        "/",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/fd/0",
        "a/b/../../../../../../../../../../../etc/passwd",
        "missing/../../ws-private/secret.txt",
        "{root}-private/secret.txt",
    ],
)
def test_l01_outside_is_refused(root: Path, path: str) -> None:
    path = path.format(parent=root.parent, root=root)
    with pytest.raises(SandboxViolationError, match="outside the workspace") as caught:
        resolve_inside(root, path)
    assert caught.value.code == "SANDBOX_VIOLATION"


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("ok.txt", "ok.txt"),
        ("./a/./b/", "a/b"),
        ("a/../a/b/../../ok.txt", "ok.txt"),
        ("{root}/ok.txt", "ok.txt"),
        ("{root}", "."),
        (".", "."),
        ("..hidden", "..hidden"),
        ("...", "..."),
        ("a/new/deep/file", "a/new/deep/file"),
        ("~/x", "~/x"),
        ("$HOME/x", "$HOME/x"),
        ("..%2f..%2fetc/passwd", "..%2f..%2fetc/passwd"),
        ("file:///etc/passwd", "file:/etc/passwd"),
        ("C:\\Windows\\win.ini", "C:\\Windows\\win.ini"),
    ],
)
def test_inside_is_accepted(root: Path, path: str, leads_to: str) -> None:
    assert resolve_inside(root, path.format(root=root)) == Path(os.path.normpath(root / leads_to))


def test_parent_names_of_the_workspace_do_not_matter(root: Path) -> None:
    assert resolve_inside(root, f"../{root.name}/ok.txt") == root / "ok.txt"


def test_a_workspace_that_is_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "door").symlink_to(root)
    workspace = Workspace(tmp_path / "door")
    for path in ("ok.txt", str(tmp_path / "door/ok.txt"), str(root / "ok.txt")):
        with workspace.open_file(path) as file:
            assert file.read() == b"ok"
    assert workspace.shown(workspace.resolve(str(tmp_path / "door/a/b"))) == "a/b"
    workspace.write_file("new/x", b"1")
    assert (root / "new/x").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "must not be empty"),
        ("   ", "must not be empty"),
        ("a\0b", "NUL"),
        ("\ud800", "lone surrogates"),
        ("x" * 256, "longer than 255 bytes"),
        ("ü" * 128, "longer than 255 bytes"),
        ("x/" * 3000, "too long"),
    ],
)
def test_names_that_can_not_be(root: Path, path: str, says: str) -> None:
    with pytest.raises(ToolCallError, match=says) as caught:
        resolve_inside(root, path)
    str(caught.value).encode("utf-8")
    assert len(str(caught.value)) < 400
    assert not any(name.startswith("x") for name in os.listdir(root))


def test_l02_links_that_lead_outside(root: Path, tmp_path: Path) -> None:
    (root / "leak").symlink_to("/etc/passwd")
    (root / "d").symlink_to("/etc")
    (root / "dangling").symlink_to(tmp_path / "new.txt")
    (root / "chain").symlink_to("dangling")
    (root / "a/up").symlink_to("../../ws-private")
    (root / "cwd").symlink_to("/proc/self/cwd")
    for path in ("leak", "d/hostname", "d", "dangling", "chain", "a/up/secret.txt", "a/up", "cwd/../../etc/passwd"):
        with pytest.raises(SandboxViolationError):
            Workspace(root).open_file(path)
        with pytest.raises(SandboxViolationError):
            Workspace(root).write_file(path, b"x")
    assert not (tmp_path / "new.txt").exists()
    assert (tmp_path / "ws-private/secret.txt").read_text() == "secret"


def test_links_inside_work_and_stay_links(root: Path) -> None:
    (root / "link").symlink_to("ok.txt")
    (root / "folder").symlink_to("a/b")
    workspace = Workspace(root)
    with workspace.open_file("link") as file:
        assert file.read() == b"ok"
    workspace.write_file("link", b"new")
    workspace.write_file("folder/../c", b"up")
    assert (root / "link").is_symlink()
    assert (root / "ok.txt").read_bytes() == b"new"
    assert (root / "a/c").read_bytes() == b"up"


def test_links_in_a_circle(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    for path in ("one", "one/x"):
        with pytest.raises(ToolCallError):
            Workspace(root).open_file(path)
        with pytest.raises(ToolCallError):
            Workspace(root).write_file(path, b"x")
    for number in range(3000):
        (root / f"l{number}").symlink_to(f"l{number + 1}")
    with pytest.raises(ToolCallError):
        Workspace(root).open_file("l0")


def test_only_regular_files_are_opened(root: Path) -> None:
    os.mkfifo(root / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(root)
    try:
        listener.bind("socket")
    finally:
        os.chdir(here)
    free = Workspace(root, restrict=False)
    for path in ("fifo", "socket", "/dev/zero", "/dev/stdin"):
        with pytest.raises(ToolCallError, match="only regular files"):
            free.open_file(path)
    for path in ("fifo", "socket"):
        with pytest.raises(ToolCallError, match="only regular files"):
            free.write_file(path, b"x")
    listener.close()
    with pytest.raises(ToolCallError, match="is a folder"):
        free.open_file("a")
    with pytest.raises(ToolCallError, match="is a folder"):
        free.write_file(".", b"x")


def test_messages_name_the_workspace_path(root: Path) -> None:
    workspace = Workspace(root)
    for path, says in (("none/x.txt", "File not found: none/x.txt"), ("ok.txt/x", "ok.txt/x is not a folder")):
        with pytest.raises(ToolCallError, match=says) as caught:
            workspace.open_file(path)
        assert str(root) not in str(caught.value)
    with pytest.raises(ToolCallError, match=r"the workspace .* is not there"):
        Workspace(root / "gone").open_file("x")


def test_writing_keeps_the_mode_and_leaves_no_temporary_file(root: Path) -> None:
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    workspace = Workspace(root)
    assert workspace.write_file("run.sh", b"new") is False
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert workspace.write_file("x/y/z.txt", b"made") is True
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((root / "x/y/z.txt").stat().st_mode) == 0o666 & ~umask
    assert not [path for path in root.rglob("*") if "kestrel" in path.name]


def test_a_folder_swapped_for_a_link_never_leads_outside(root: Path, tmp_path: Path) -> None:
    """One thread swaps a folder with a link to a folder outside, the other reads and writes through it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("outside")
    (root / "swap").mkdir()
    (root / "swap/f").write_text("inside")
    (root / "away").symlink_to(outside)
    stop = threading.Event()

    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    names = [os.fsencode(root / name) for name in ("swap", "away")]

    def swap() -> None:
        while not stop.is_set():
            assert exchange(-100, names[0], -100, names[1], 2) == 0  # AT_FDCWD, RENAME_EXCHANGE
            time.sleep(0)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    workspace = Workspace(root)
    try:
        for number in range(1000):
            try:
                if number % 2:
                    workspace.write_file("swap/f", b"inside")
                else:
                    with workspace.open_file("swap/f") as file:
                        seen.add(file.read())
            except ToolCallError:
                continue
    finally:
        stop.set()
        thread.join()
    assert b"outside" not in seen
    assert sorted(os.listdir(outside)) == ["f"]
    assert (outside / "f").read_text() == "outside"


def test_without_confinement_every_path_is_allowed(root: Path, tmp_path: Path) -> None:
    workspace = Workspace(root, restrict=False)
    with workspace.open_file("../ws-private/secret.txt") as file:
        assert file.read() == b"secret"
    assert workspace.write_file(str(tmp_path / "out/new.txt"), b"x") is True
    assert workspace.shown(workspace.resolve(str(tmp_path / "out"))) == str(tmp_path / "out")
    assert workspace.shown(workspace.resolve("ok.txt")) == "ok.txt"


def test_names_that_are_not_utf_8_are_shown_readably(root: Path) -> None:
    (root / os.fsdecode(b"caf\xe9")).write_text("x")
    names = [name for folder in Workspace(root).walk(".") for name in map(folder.path_of, folder.files)]
    assert "caf\\xe9" in names
    "".join(names).encode("utf-8")
