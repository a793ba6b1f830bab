"""What the tests of the file store share: small sessions, damaged files, broken disks."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.sessions import SessionDetail, SessionStep
from kestrel_nb.runtime.file_disk import MAX_BYTES, Disk

DATA = Path(__file__).parents[1] / "data" / "store"
TRUNCATED = (DATA / "Q02.session.json").read_bytes()


def session(id: str = "a", *texts: str, seq: int = 0) -> SessionDetail:
    return SessionDetail(id=id, messages=tuple(create_message("user", text) for text in texts or ("hello",)), seq=seq)


def step(seq: int, text: str = "x") -> SessionStep:
    return SessionStep(seq=seq, updated_at=1.0, messages=(create_message("assistant", text),))


def document(folder: Path, id: str = "a") -> Path:
    return folder / "sessions" / id / "session.json"


def planted(folder: Path, content: bytes, id: str = "a", name: str = "session.json") -> Path:
    path = document(folder, id).with_name(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 2 * 2**30)  # sparse: takes no room


def filled(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


WHOLE = b'{"version":1,"kind":"session","id":"a","title":"t","messages":[{"id":"m","role":"user","parts":[]}]}'
DAMAGE: dict[str, Callable[[Path], None]] = {
    "empty": filled(b""),
    "blank": filled(b" \n"),
    "truncated": filled(TRUNCATED),
    **{f"cut at {cut}": filled(WHOLE[:cut]) for cut in (1, 30, 60, len(WHOLE) - 1)},
    "not utf-8": filled(b'{"id":"a","title":"\xff\xfe\x80"}'),
    "nul bytes": filled(bytes(4096)),
    "null": filled(b"null"),
    "array": filled(b"[]"),
    "text": filled(b'"session"'),
    "number": filled(b"1e999"),
    "nan": filled(b'{"id":"a","createdAt":NaN}'),
    "deep": filled(b"[" * 100_000),
    "deep object": filled(b'{"extra":' * 5000 + b"1" + b"}" * 5000),
    "newer": filled(b'{"version":2,"id":"a","messages":"in another form"}'),
    "wrong types": filled(b'{"id":"a","messages":[{"role":"user","parts":[{"kind":[]}]}]}'),
    "directory": Path.mkdir,
    "fifo": fifo,
    "socket": unix_socket,
    "huge": huge,
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "broken link": lambda path: path.symlink_to("nowhere"),
}


def kept(path: Path) -> Any:
    """What must still be there after a save: kind and bytes."""
    status = path.lstat()
    content = path.read_bytes() if stat.S_ISREG(status.st_mode) and status.st_size < MAX_BYTES else status.st_size
    return stat.S_IFMT(status.st_mode), content


def names(folder: Path) -> list[str]:
    """Every path below ``folder``."""
    return sorted(str(path) for path in folder.rglob("*"))


class BrokenDisk(Disk):
    """Fails at one kind of call."""

    def __init__(self, function: Any, error: int) -> None:
        self.function, self.error = function, error

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if function is self.function:
            raise OSError(self.error, os.strerror(self.error))
        return function(*args, **kwargs)
