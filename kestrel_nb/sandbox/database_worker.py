"""One query of a SQLite file, read-only. Run as a script in a child process: it has the standard library alone.

Order, as one JSON object: path (real, absolute), identity ([device, inode] of the file that was judged), query, params,
max_rows, max_chars (JSON text of all rows), max_cell (characters of one cell). Answer: {columns, rows (lists of cells),
truncated}, or {problem, text}, where problem is one of PROBLEMS.

Cells are JSON: integers exact, infinities as the texts "Infinity" and "-Infinity" (SQLite has no NaN), blobs as
"base64:...", text that is no UTF-8 with U+FFFD in place of what can't be read. A cell over max_cell is cut and says so.
"""

import base64
import json
import math
import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROBLEMS = ("not_allowed", "query", "params", "locked", "changed", "unfinished", "not_a_database", "failed")

SELECT, READ, FUNCTION, RECURSIVE, PRAGMA = 21, 20, 31, 33, 19  # action codes of sqlite3_set_authorizer
BAD_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "optimize"})
# Pragmas that describe the tables: for pragma_table_info('t') and the like.
DESCRIBING = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"})
DESCRIBING |= {"foreign_key_list"}
OF_MODULES = frozenset({"data_version", "page_size"})  # what the full-text modules ask for themselves
LIMITS = {"LENGTH": 10_000_000, "SQL_LENGTH": 1_000_000, "ATTACHED": 0, "LIKE_PATTERN_LENGTH": 5_000}
BUSY_S = 1.0
KINDS = {
    sqlite3.SQLITE_AUTH: "not_allowed",
    sqlite3.SQLITE_READONLY: "not_allowed",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_CORRUPT: "not_a_database",
    sqlite3.SQLITE_NOTADB: "not_a_database",
}
FIRST_WORDS = ("select", "with", "values", "explain")
TABLES_SHOWN = 20

_SPACE = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL | re.ASCII)
_WORD = re.compile(r"[A-Za-z]*")
_keep: list[sqlite3.Connection] = []  # never closed: the last connection of a database may tidy up its files


class Problem(Exception):
    """Why there are no rows."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


def main() -> None:
    """Read the order, write the answer."""
    order = json.load(sys.stdin)
    try:
        answer = run(order)
    except Problem as problem:
        answer = {"problem": problem.kind, "text": problem.text}
    except MemoryError:
        answer = {"problem": "failed", "text": "the query needs more memory than it may have"}
    except Exception as error:  # a damaged file can make the module itself stumble, over a name that is no text, say
        answer = {"problem": "failed", "text": f"the database can't be read: {type(error).__name__}"}
    sys.stdout.write(json.dumps(answer))


def run(order: dict[str, Any]) -> dict[str, Any]:
    """The answer to ``order``. Raises Problem."""
    check_statement(order["query"])
    no_writing()
    before = state(order)
    check_whole(order["path"])
    how = how_to_open(order["path"])
    connection = opened(order["path"], how)
    load_modules(connection, order["query"])
    connection.set_authorizer(authorize)
    answer = fetched(connection, order)
    if state(order) != before and "immutable" in how:  # in the other ways SQLite keeps readers and writers apart
        raise Problem("changed", "the database was changed while it was read; run the query again")
    return answer


def check_statement(query: str) -> None:
    """Raise Problem unless ``query`` begins as a statement that may run; what it does is the authorizer's matter."""
    if "\0" in query:
        raise Problem("query", "the query has a NUL character in it")
    space = _SPACE.match(query)
    word = _WORD.match(query, space.end() if space else 0)
    first = word.group().lower() if word else ""
    if first in FIRST_WORDS:
        return
    if space and space.end() == len(query):
        raise Problem("query", "the query is empty; write a SELECT statement")
    hint = "; the columns of a table are in pragma_table_info('name of the table')" if first == "pragma" else ""
    raise Problem("not_allowed", f"this begins with {first.upper()}{hint}" if first else "this does not begin with one")


def no_writing() -> None:
    """Let this process write to no file at all, whatever a statement brings SQLite to do."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


# --- opening ---------------------------------------------------------------------------------------------------------


def state(order: dict[str, Any]) -> tuple[int, ...]:
    """What changes when somebody writes to the file. Raises Problem when another one is in its place."""
    found = os.stat(order["path"])
    if [found.st_dev, found.st_ino] != order["identity"]:
        raise Problem("changed", "the database file was replaced meanwhile; run the query again")
    return found.st_size, found.st_mtime_ns


def check_whole(path: str) -> None:
    """Raise Problem for a copy that broke off within a page: SQLite would read NULL for what is missing of it."""
    with open(path, "rb") as file:
        header = file.read(18)
    page = int.from_bytes(header[16:18], "big")
    page = 65_536 if page == 1 else page
    if header.startswith(b"SQLite format 3\0") and page and size(path) % page:
        raise Problem("not_a_database", "it ends in the middle of a page")


def how_to_open(path: str) -> str:
    """The URI parameters with which nothing appears beside the file and nothing in it changes.

    A file with a write-ahead log needs shared memory, which even a reader would create. With no log to read, the file
    is complete and needs none; with a log but without its shared memory, an exclusive reader keeps the index to itself.
    """
    if not uses_log(path) or size(f"{path}-wal") < 0:
        return "mode=ro&immutable=1" if uses_log(path) else "mode=ro"
    if size(f"{path}-shm") >= 0:
        return "mode=ro&readonly_shm=1"
    return "mode=ro&vfs=unix-none" if size(f"{path}-wal") else "mode=ro&immutable=1"


def uses_log(path: str) -> bool:
    """Whether the file's header asks for a write-ahead log (read version 2)."""
    with open(path, "rb") as file:
        header = file.read(20)
    return len(header) == 20 and header[19] == 2


def size(path: str) -> int:
    """Bytes of a file, -1 when there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def opened(path: str, parameters: str) -> sqlite3.Connection:
    """A connection that can only read, with small limits. Raises Problem."""
    try:
        connection = sqlite3.connect(
            f"{Path(path).as_uri()}?{parameters}", uri=True, timeout=BUSY_S, isolation_level=None
        )
        _keep.append(connection)
        for name, value in LIMITS.items():
            connection.setlimit(getattr(sqlite3, f"SQLITE_LIMIT_{name}"), value)
        if "unix-none" in parameters:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        for pragma in ("query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.Error as error:
        raise explained(error, path) from None
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def load_modules(connection: sqlite3.Connection, query: str) -> None:
    """Set up the virtual tables there are, and the modules that ``query`` names; the authorizer would not let them."""
    words = frozenset(re.findall(r"\w+", query.lower()))
    names = [f"pragma_{name}('x')" for name in DESCRIBING if f"pragma_{name}" in words]
    names += [f"{name}('[]')" for name in ("json_each", "json_tree") if name in words]
    try:
        virtual = connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'").fetchall()
    except sqlite3.Error:
        virtual = []
    names += ['"{}"'.format(name.replace('"', '""')) for (name,) in virtual]
    for name in names:
        try:
            connection.execute(f"SELECT 1 FROM {name} LIMIT 0")
        except sqlite3.Error:
            continue  # its module is not there, or its table is damaged: the query itself will say so


def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Allow what reads, deny everything else."""
    if action in (SELECT, READ, RECURSIVE):
        return sqlite3.SQLITE_OK
    if action == FUNCTION:
        allowed = (second or "").lower() not in BAD_FUNCTIONS
    else:
        name = (first or "").lower()
        allowed = action == PRAGMA and (name in DESCRIBING or (name in OF_MODULES and second is None))
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


# --- reading ---------------------------------------------------------------------------------------------------------


def fetched(connection: sqlite3.Connection, order: dict[str, Any]) -> dict[str, Any]:
    """The rows, as far as they may go. Raises Problem."""
    try:
        cursor = connection.execute(order["query"], order["params"])
        columns = [str(column[0]) for column in cursor.description or ()]
        rows: list[list[Any]] = []
        truncated = False
        left = order["max_chars"]
        names = len(json.dumps(columns))  # each row repeats them when it becomes an object
        for row, cut in cells(cursor, order["max_cell"]):
            left -= names + len(json.dumps(row))
            if len(rows) == order["max_rows"] or left < 0:
                truncated = True
                break
            rows.append(row)
            truncated |= cut
    except OverflowError:
        raise Problem("params", "an integer is beyond 64 bits; SQLite has no such") from None
    except UnicodeEncodeError:
        raise Problem(
            "params", "the query or a text of params has a lone surrogate; SQLite takes valid Unicode"
        ) from None
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise explained(error, order["path"], connection) from None
    return {"columns": columns, "rows": rows, "truncated": truncated}


def cells(cursor: sqlite3.Cursor, longest: int) -> Iterator[tuple[list[Any], bool]]:
    """Each row as JSON, and whether a cell of it was cut."""
    for row in cursor:
        made = [cell(value, longest) for value in row]
        yield [value for value, _ in made], any(cut for _, cut in made)


def cell(value: Any, longest: int) -> tuple[Any, bool]:
    """One value as JSON, and whether it was cut."""
    if isinstance(value, float) and not math.isfinite(value):
        return ("Infinity" if value > 0 else "-Infinity"), False
    if isinstance(value, bytes):
        if len(value) > longest * 3 // 4:
            return f"[blob of {len(value):,} bytes, too long to show]", True
        return f"base64:{base64.b64encode(value).decode('ascii')}", False
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]}… [cut: {len(value):,} characters]", True
    return value, False


def explained(error: Exception, path: str, connection: sqlite3.Connection | None = None) -> Problem:
    """What SQLite or its Python module said, as a kind and a sentence."""
    text, code = str(error), getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extension of the code
    if isinstance(error, (sqlite3.ProgrammingError, sqlite3.Warning)):  # of the Python module, before anything runs
        if "one statement" in text:
            return Problem("not_allowed", "this is more than one statement")
        return Problem("params", f"params: {text[:1].lower()}{text[1:]}")
    if code == sqlite3.SQLITE_READONLY and size(f"{path}-journal") > 0:
        return Problem("unfinished", "a program stopped in the middle of a write")
    if code in KINDS:
        return Problem(KINDS[code], text)
    if text.startswith("not authorized") or text.endswith("may not be modified"):
        return Problem("not_allowed", text)
    if text.startswith("no such table") and connection is not None:
        return Problem("query", f"{text}{tables(connection)}")
    return Problem("query", text or type(error).__name__)


def tables(connection: sqlite3.Connection) -> str:
    """The names of the tables and views, as the end of a sentence."""
    query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
    names = [name[:60] for (name,) in connection.execute(query).fetchmany(TABLES_SHOWN + 1)]
    more = ", …" if len(names) > TABLES_SHOWN else ""
    return f"; the tables: {', '.join(names[:TABLES_SHOWN])}{more}" if names else "; the database has no tables"


if __name__ == "__main__":
    main()
