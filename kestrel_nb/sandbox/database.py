"""Asking a SQLite file one question, without any way to change it, and for a bounded time.

A single function of SQL can compute for minutes without a moment in which anything could stop it, so the question is
asked by a child process (``database_worker``) that is killed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..protocol.errors import SandboxViolationError, ToolCallError
from .child import ChildDied, ChildTimeout, run_child
from .closed import Closed
from .paths import printable_name

WORKER = Path(__file__).with_name("database_worker.py")
TIMEOUT_S = 5.0  # wall clock of one query, as long as code-eval gets
MEMORY_BYTES = 512_000_000  # address space: the interpreter takes about a fifth
MAX_ROWS = 1_000
MAX_CHARS = 1_000_000  # JSON text of all rows
MAX_CELL = 100_000  # characters
MAX_QUERY = 100_000  # characters
MAX_ANSWER = 4_000_000  # bytes: the rows, and what is around them

ONLY_SELECT = "Only SELECT queries are allowed (SELECT, WITH ... SELECT, VALUES, EXPLAIN), one statement at a time"


class DatabaseError(ToolCallError):
    """A question without an answer. ``code`` says which kind: database_<problem of the worker>, or database_timeout."""

    default_code = "database_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``rows`` are lists of JSON cells, in the order of ``columns``, whose names may repeat.

    ``truncated``: there are more rows, or a cell was cut.
    """

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool


@dataclass(frozen=True, slots=True)
class DatabaseFile:
    """A file that may be asked: its real path, and which file that was."""

    path: str
    device: int
    inode: int

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return printable_name(os.path.basename(self.path))


def find_database(path: str | os.PathLike[str]) -> DatabaseFile:
    """The file at ``path``, links followed. Raises DatabaseError when it can't be asked, closed places included."""
    name = printable_name(os.path.basename(os.fspath(path)))
    try:
        real = os.path.realpath(path, strict=True)
        found = os.stat(real)
        Closed(Path(os.sep)).check(Path(real), name)
    except FileNotFoundError:
        raise DatabaseError(f"database not found: {name}; database_path must name an existing SQLite file") from None
    except (OSError, ValueError) as error:
        raise DatabaseError(f"{name} can't be opened: {getattr(error, 'strerror', None) or error}") from None
    except SandboxViolationError as error:
        raise DatabaseError(str(error)) from None
    if not stat.S_ISREG(found.st_mode):
        raise DatabaseError(f"{name} is no file; database_path must name an existing SQLite file")
    return DatabaseFile(real, found.st_dev, found.st_ino)


async def ask(
    file: DatabaseFile,
    query: str,
    params: Sequence[Any] = (),
    *,
    timeout_s: float = TIMEOUT_S,
    stop: Callable[[], Awaitable[Any]] | None = None,
) -> Answer:
    """The first MAX_ROWS rows that ``query`` gives. ``params`` (text, numbers, booleans, None) replace its ``?``.

    Raises DatabaseError for all that is not answered, and CancelledByUser after ``stop()``.
    """
    if len(query) > MAX_QUERY:
        raise DatabaseError(f"the query is too long: {len(query):,} characters of at most {MAX_QUERY:,}")
    order = {
        "path": file.path,
        "identity": [file.device, file.inode],
        "query": query,
        "params": list(params),
        "max_rows": MAX_ROWS,
        "max_chars": MAX_CHARS,
        "max_cell": MAX_CELL,
    }
    try:
        reply = await run_child(
            WORKER, order, timeout_s=timeout_s, memory_bytes=MEMORY_BYTES, max_bytes=MAX_ANSWER, stop=stop
        )
    except ChildTimeout as error:
        hint = "ask for less: a WHERE, a LIMIT, fewer joined tables"
        raise DatabaseError(f"the query was {error}; {hint}", code="database_timeout") from None
    except ChildDied as error:
        raise DatabaseError(f"the query could not be run: its process {error}") from None
    if "problem" in reply:
        raise DatabaseError(_sentence(reply["problem"], reply["text"], file.name), code=f"database_{reply['problem']}")
    return Answer(columns=reply["columns"], rows=reply["rows"], truncated=reply["truncated"])


def _sentence(problem: str, text: str, name: str) -> str:
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:400])
    sentences = {
        "not_allowed": f"{ONLY_SELECT}: {text}",
        "locked": f"{name} is locked by another program that writes; try again when it is done",
        "unfinished": f"{name}: {text}; open it once with a program that may write, such as sqlite3, to repair it",
        "not_a_database": f"{name} is not a SQLite database, or it is damaged: {text}",
    }
    return sentences.get(problem, text)
