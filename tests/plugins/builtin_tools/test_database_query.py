"""database-query: its rows, the cases, databases in odd states, and what never stops by itself."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calling import call, calls, is_failure, rows_of
from stage import Stage

from kestrel_nb import Kestrel
from kestrel_nb.frames import to_frame
from kestrel_nb.plugins.builtin_tools.config import BuiltInToolConfig
from kestrel_nb.plugins.builtin_tools.database_query import DatabaseQuery
from kestrel_nb.protocol.tools import TextPreview
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import ToolContext
from kestrel_nb.sandbox.closed import close_off
from kestrel_nb.sandbox.database import MAX_ROWS
from kestrel_nb.testing import Reply, ScriptedModel

ENDLESS = "SELECT printf('%.*c',2000000000,'x')"
ONLY_SELECT = "Only SELECT queries are allowed"
SETUP = """
CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT, active INTEGER);
INSERT INTO users VALUES (1, 'Alice', 1), (2, 'Bob', 0);
CREATE TABLE log(id INTEGER, line TEXT);
CREATE TABLE big(name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO big SELECT 'name ' || i FROM n;
CREATE VIRTUAL TABLE ft USING fts5(body);
INSERT INTO ft VALUES ('hello world');
CREATE TABLE t(a BLOB, n INTEGER, r REAL);
INSERT INTO t VALUES (x'00ff', 9007199254740993, 9e999);
"""


class World:
    """A folder with a database, and everything in it and beside it as it was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.path = folder / "data.db"
        with sqlite3.connect(self.path) as connection:
            connection.executescript(SETUP)
        connection.close()
        (folder / "notadb.txt").write_text("this is some text and no database\n" * 50)
        self.before = self.state()

    def state(self) -> dict[str, str]:
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def check(self) -> None:
        assert self.state() == self.before


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.check()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def wal(path: Path) -> sqlite3.Connection:
    """A database with a write-ahead log in which one row stands; as long as the connection is open, only there."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t(a)")
    connection.execute("INSERT INTO t VALUES (1)")
    return connection


# --- the collected rows and cases ------------------------------------------------------------------------------------


def assert_expected(row: dict[str, Any], data: dict[str, Any]) -> None:
    expect = row["expect"]
    outcome = expect.get("outcome", "rows")
    if outcome.startswith("error_object"):
        assert is_failure(data), row["id"]
    elif outcome == "rows":
        assert data["rowCount"] == len(data["rows"]) > 0, row["id"]
        assert all(len(item) == len(data["columns"]) for item in data["rows"])
    elif outcome == "schema error":
        assert "params" in data["schema_error"]
    else:
        assert outcome in ("error or capped", "rows or error")
        assert is_failure(data) or data["rows"]
    for key in ("rows", "columns"):
        assert key not in expect or data[key] == expect[key]
    if expect.get("rows_capped"):
        assert data["rowCount"] == MAX_ROWS
        assert data["truncated"] is True


async def test_every_row_of_sql(world: World) -> None:
    rows, excluded = rows_of("sql")
    assert len(rows) + len(excluded) == 47
    for row in rows:
        given = row["input"]
        path = world.folder / given["config"]["databasePath"] if "config" in given else world.path
        args = {"query": given["query"].replace("{TMP}", str(world.outside))}
        args |= {"params": given["params"]} if "params" in given else {}
        assert_expected(row, await call(DatabaseQuery(path), **args))
        world.check()


async def test_s01_a_with_clause_before_a_change_changes_nothing(world: World) -> None:
    heads = (
        "WITH x AS (SELECT 1) ",
        "with x(a) as materialized (values(1)) ",
        "/* c */ WITH RECURSIVE x AS (SELECT 1)\n",
    )
    changes = (
        "DELETE FROM users",
        "INSERT INTO users VALUES (9, 'x', 1) RETURNING *",
        "UPDATE users SET active = 0 -- limit",
        "REPLACE INTO users SELECT 1, 'x', 1 FROM x",
        "UPDATE sqlite_master SET sql = ''",
        "DELETE FROM users WHERE id IN (SELECT * FROM x) RETURNING id",
    )
    asked = [{"query": head + change} for head in heads for change in changes]
    for data in await calls(DatabaseQuery(world.path), asked):
        assert is_failure(data)
        assert data["message"].startswith(ONLY_SELECT)


async def test_s02_one_statement_and_no_other_database(world: World) -> None:
    refused = [
        "SELECT 1; DROP TABLE t",
        f"SELECT 1; ATTACH DATABASE '{world.outside}/evil.db' AS e",
        f"ATTACH '{world.outside}/cookies.db' AS c",
        f"VACUUM INTO '{world.outside}/copy.db'",
        "SELECT 1;;SELECT 2",
        "DETACH main",
        "PRAGMA table_info(t)",
        "EXPLAIN DELETE FROM t",
        "EXPLAIN PRAGMA user_version = 7",
        "SELECT * FROM pragma_user_version",
        "SELECT * FROM pragma_journal_mode('delete')",
        "SELECT * FROM pragma_database_list",
        "SELECT writefile('x', 'y')",
        "CREATE TABLE x AS SELECT 1",
        "REINDEX",
        "END",
    ]
    fine = {
        "SELECT ';' AS semi": {"semi": ";"},
        "SELECT 2;": {"2": 2},
        "SELECT 1 AS n -- trailing": {"n": 1},
        "SELECT 1 AS n /* ; DELETE FROM t */ ;  -- ;\n": {"n": 1},
        "\n\t/* a */ -- b\n select 'DROP TABLE t' as s": {"s": "DROP TABLE t"},
    }
    bad = await calls(DatabaseQuery(world.path), [{"query": query} for query in refused])
    assert all(map(is_failure, bad))
    assert bad[0]["message"].startswith(ONLY_SELECT)
    for query, row in fine.items():
        assert (await call(DatabaseQuery(world.path), query=query))["rows"] == [row]


async def test_a_pragma_is_told_where_the_columns_are(world: World) -> None:
    tool = DatabaseQuery(world.path)
    data = await call(tool, query="PRAGMA table_info(t)")
    assert data["message"].endswith("; the columns of a table are in pragma_table_info('name of the table')")
    found = await call(tool, query="SELECT name FROM pragma_table_info('t')")
    assert [row["name"] for row in found["rows"]] == ["a", "n", "r"]


async def test_s05_every_type_survives_json_and_no_column_is_lost(world: World) -> None:
    tool = DatabaseQuery(world.path)
    cells = {"a": "base64:AP8=", "n": 9007199254740993, "r": "Infinity"}
    assert await call(tool, query="SELECT * FROM t") == {"rows": [cells], "rowCount": 1, "columns": ["a", "n", "r"]}
    twice = await call(tool, query="SELECT a AS x, n AS x FROM t")
    assert twice == {"rows": [{"x": "base64:AP8=", "x_2": 9007199254740993}], "rowCount": 1, "columns": ["x", "x"]}
    (random,) = (await call(tool, query="SELECT randomblob(4) AS b"))["rows"]
    assert random["b"].startswith("base64:")
    assert (await call(tool, query="SELECT n FROM t WHERE n = ?", params=[9007199254740993]))["rowCount"] == 1
    assert (await call(tool, query="SELECT n FROM t WHERE n = ?", params=[9007199254740992]))["rowCount"] == 0
    odd = await call(
        tool, query="SELECT 1 AS x, 2 AS x_2, 3 AS x, 4 AS x, NULL AS z, -9e999 AS i, CAST(x'ff41' AS TEXT) AS s"
    )
    assert odd["rows"] == [{"x": 1, "x_2": 2, "x_3": 3, "x_4": 4, "z": None, "i": "-Infinity", "s": "\ufffdA"}]
    extremes = await call(tool, query="SELECT ? AS low, ? AS high", params=[-(2**63), 2**63 - 1])
    assert extremes["rows"] == [{"low": -(2**63), "high": 2**63 - 1}]


async def test_a_frame_has_the_columns_also_without_rows(world: World) -> None:
    tool = DatabaseQuery(world.path)
    frame = to_frame(await call(tool, query="SELECT id, name FROM users ORDER BY id"))
    assert frame.to_dict("split")["data"] == [[1, "Alice"], [2, "Bob"]]
    assert list(to_frame(await call(tool, query="SELECT id, name FROM users WHERE 0")).columns) == ["id", "name"]


# --- what may be asked -----------------------------------------------------------------------------------------------


async def test_reading_in_every_form_is_allowed(world: World) -> None:
    with sqlite3.connect(world.path) as connection:
        connection.executescript(
            "CREATE VIRTUAL TABLE f4 USING fts4(body); INSERT INTO f4 VALUES ('hello there');"
            "CREATE VIRTUAL TABLE rt USING rtree(id, low, high); INSERT INTO rt VALUES (1, 0, 5);"
            "CREATE VIEW active AS SELECT name FROM users WHERE active"
        )
    connection.close()
    world.before = world.state()
    queries = {
        "SELECT value FROM json_each('[7]')": 7,
        "SELECT atom FROM json_tree('{\"a\":7}') WHERE atom": 7,
        "SELECT body FROM ft WHERE ft MATCH 'hello'": "hello world",
        "SELECT snippet(ft, 0, '<', '>', '', 5) FROM ft WHERE ft MATCH 'world'": "hello <world>",
        "SELECT body FROM f4 WHERE f4 MATCH 'hello'": "hello there",
        "SELECT id FROM rt WHERE low < 1": 1,
        "SELECT name FROM active": "Alice",
        "SELECT name FROM pragma_table_info('users') WHERE pk": "id",
        "SELECT count(*) FROM sqlite_master WHERE name = 'users'": 1,
        "SELECT sum(active) OVER () FROM users": 1,
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT max(i) FROM n": 9,
        "VALUES (1), (2)": 1,
        "SELECT group_concat(name) FROM (SELECT name FROM users ORDER BY id)": "Alice,Bob",
        "SELECT name FROM users ORDER BY name COLLATE NOCASE DESC LIMIT 1": "Bob",
    }
    for (query, value), data in zip(
        queries.items(), await calls(DatabaseQuery(world.path), [{"query": query} for query in queries]), strict=True
    ):
        assert next(iter(data["rows"][0].values())) == value, query


async def test_params(world: World) -> None:
    tool = DatabaseQuery(world.path)
    data = await call(
        tool, query="SELECT ? AS a, ? AS b, ? AS c, ? AS d, ? AS e", params=["'; DROP TABLE t", 1.5, True, None, ""]
    )
    assert data["rows"] == [{"a": "'; DROP TABLE t", "b": 1.5, "c": 1, "d": None, "e": ""}]
    bad: list[list[Any]] = [[], [1, 2], [2**63], [-(2**63) - 1], [[1]], [{"a": 1}], ["\ud800"]]
    for data in await calls(tool, [{"query": "SELECT ?", "params": params} for params in bad]):
        assert is_failure(data)


async def test_errors_say_what_to_do(world: World) -> None:
    asked = {
        "SELECT * FROM nope": "no such table: nope; the tables: big, ft, ",
        "SELECT nope FROM users": "no such column: nope",
        "SELECT locked FROM users": "no such column: locked",
        "SELECT readonly FROM [not a database malformed]": "no such table: not a database malformed; the tables",
        "SELECT json('{')": "malformed JSON",
        "SELECT 1\x1a\n": 'unrecognized token: "\\x1a"',
        "SELECT FROM WHERE": 'near "FROM": syntax error',
        "": "the query is empty; write a SELECT statement",
        "/* never closed": "the query is empty",
        "SELECT 'a\0b'": "the query has a NUL character in it",
        "DELETE FROM users": f"{ONLY_SELECT} (SELECT, WITH ... SELECT, VALUES, EXPLAIN), one statement at a time: this",
        "SELECT ?": "params: incorrect number of bindings",
        "SELECT '" + "x" * 200_000 + "'": "the query is too long",
        "SELECT length(zeroblob(900000000))": "string or blob too big",
    }
    answers = await calls(DatabaseQuery(world.path), [{"query": query} for query in asked])
    for (query, start), data in zip(asked.items(), answers, strict=True):
        assert is_failure(data), query[:50]
        assert data["message"].startswith(start), data["message"]


async def test_what_is_given_is_bounded_and_says_so(world: World) -> None:
    tool = DatabaseQuery(world.path)
    rows = await call(tool, query="SELECT * FROM big")
    assert (rows["rowCount"], rows["truncated"]) == (MAX_ROWS, True)
    exact = await call(tool, query=f"SELECT * FROM big LIMIT {MAX_ROWS}")
    assert exact["rowCount"] == MAX_ROWS
    assert "truncated" not in exact
    wide = await call(tool, query="SELECT replace(hex(zeroblob(25000)), '0', 'x') AS w FROM big")
    assert wide["truncated"] is True
    assert 10 < wide["rowCount"] < 30
    text, blob = (await call(tool, query="SELECT hex(zeroblob(100000)) AS t, zeroblob(200000) AS b"))["rows"][
        0
    ].values()
    assert text.endswith("0… [cut: 200,000 characters]")
    assert blob == "[blob of 200,000 bytes, too long to show]"
    names = ", ".join(f"1 AS {'n' * 900}{number}" for number in range(80))
    many = await call(tool, query=f"SELECT {names} FROM big")
    assert many["truncated"] is True
    assert len(many["rows"]) < 30


# --- which file ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["a b.db", "a?mode=rwc.db", "a#b.db", "100%25.db", "ü–数.db", "file:x.db", "a&immutable=1.db", "'q\".db", "-x.db"],
)
async def test_any_file_name_is_just_a_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 5 AS five")
    connection.close()
    assert (await call(DatabaseQuery(path), query="SELECT five FROM t"))["rows"] == [{"five": 5}]
    assert os.listdir(tmp_path) == [name]


async def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"a\xff.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 5 AS five")
    connection.close()
    assert (await call(DatabaseQuery(os.fsdecode(path)), query="SELECT five FROM t"))["rows"] == [{"five": 5}]


async def test_what_is_no_database_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(world.folder / "pipe")
    (world.folder / "dangling.db").symlink_to(world.folder / "gone.db")
    (world.folder / "loop.db").symlink_to(world.folder / "loop.db")
    broken = world.folder / "broken.db"
    broken.write_bytes(world.path.read_bytes()[:5000])
    world.before = world.state()
    expected = {
        world.folder / "gone.db": "database not found: gone.db",
        world.folder / "dangling.db": "database not found",
        world.folder / "no" / "such.db": "database not found",
        world.folder / "loop.db": "loop.db can't be opened",
        world.folder: f"{world.folder.name} is no file",
        world.folder / "pipe": "pipe is no file",
        Path("/dev/zero"): "zero is no file",
        world.folder / "notadb.txt": "notadb.txt is not a SQLite database",
        broken: "broken.db is not a SQLite database, or it is damaged",
        world.folder / "a\0b.db": "a",
    }
    for path, start in expected.items():
        data = await call(DatabaseQuery(path), query="SELECT * FROM users, big")
        assert is_failure(data), path
        assert data["message"].startswith(start)
        assert str(world.folder) not in data["message"]
    assert "database_path" in (await call(DatabaseQuery(None), query="SELECT 1"))["message"]
    monkeypatch.chdir(world.folder)
    assert (await call(DatabaseQuery("data.db"), query="SELECT 1 AS one"))["rows"] == [{"one": 1}]


async def test_a_link_is_followed_but_not_into_a_closed_place(world: World, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(world.path)
    assert (await call(DatabaseQuery(tmp_path / "link.db"), query="SELECT 1 AS one"))["rowCount"] == 1
    closed = tmp_path / "sessions"
    closed.mkdir()
    shutil.copy(world.path, closed / "own.db")
    (tmp_path / "way.db").symlink_to(closed / "own.db")
    world.before = world.state()
    close_off(closed)
    for path in (closed / "own.db", tmp_path / "way.db"):
        data = await call(DatabaseQuery(path), query="SELECT 1")
        assert is_failure(data)
        assert "no tool may use it" in data["message"]


# --- databases in use ------------------------------------------------------------------------------------------------


async def test_a_write_ahead_log_is_read_and_nothing_appears(tmp_path: Path) -> None:
    closed, live = tmp_path / "closed.db", tmp_path / "live.db"
    wal(closed).close()
    writer = wal(live)
    for suffix in ("", "-wal"):
        shutil.copy(f"{live}{suffix}", f"{tmp_path}/left.db{suffix}")
        shutil.copy(f"{live}{suffix}", f"{tmp_path}/crashed.db{suffix}")
    shutil.copy(f"{live}-shm", f"{tmp_path}/crashed.db-shm")
    idle = wal(tmp_path / "idle.db")
    idle.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t VALUES (2)")
    before = contents(tmp_path)
    for name in ("closed.db", "live.db", "left.db", "crashed.db", "idle.db"):
        data = await call(DatabaseQuery(tmp_path / name), query="SELECT count(*) AS n FROM t")
        assert data["rows"] == [{"n": 1}], name
    assert contents(tmp_path) == before
    writer.execute("COMMIT")
    assert (await call(DatabaseQuery(live), query="SELECT count(*) AS n FROM t"))["rows"] == [{"n": 2}]
    writer.close()
    idle.close()


async def test_text_in_other_forms(tmp_path: Path) -> None:
    wide, odd, empty = tmp_path / "wide.db", tmp_path / "odd.db", tmp_path / "empty.db"
    for path, encoding in ((wide, "UTF-16"), (odd, "UTF-8")):
        with sqlite3.connect(path) as connection:
            connection.executescript(
                f"PRAGMA encoding = '{encoding}'; CREATE TABLE t(abcd); INSERT INTO t VALUES ('ü😀')"
            )
        connection.close()
    odd.write_bytes(odd.read_bytes().replace(b"abcd", b"a\xffcd"))
    empty.touch()
    assert (await call(DatabaseQuery(wide), query="SELECT * FROM t"))["rows"] == [{"abcd": "ü😀"}]
    assert (await call(DatabaseQuery(odd), query="SELECT sql FROM sqlite_master"))["rows"] == [
        {"sql": "CREATE TABLE t(a\ufffdcd)"}
    ]
    assert is_failure(await call(DatabaseQuery(odd), query="SELECT * FROM t"))
    nothing = await call(DatabaseQuery(empty), query="SELECT * FROM t")
    assert nothing["message"] == "no such table: t; the database has no tables"


async def test_a_direct_call_returns_the_data_or_the_error_object(world: World) -> None:
    config = BuiltInToolConfig(enabled=["database-query"], database_path=world.path)
    async with Kestrel(model=ScriptedModel([]), built_in_tools=config) as app:
        data = await app.use_tool("database-query", {"query": "SELECT name FROM users WHERE id = 1"})
        assert data == {"rows": [{"name": "Alice"}], "rowCount": 1, "columns": ["name"]}
        assert is_failure(await app.use_tool("database-query", {"query": "DELETE FROM users"}))


async def test_a_locked_database_says_what_to_do(world: World) -> None:
    writer = sqlite3.connect(world.path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    data = await call(DatabaseQuery(world.path), query="SELECT * FROM users")
    writer.close()
    assert is_failure(data)
    assert data["message"] == "data.db is locked by another program that writes; try again when it is done"


HOT = """
import sqlite3, os, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.executescript("CREATE TABLE t(a); BEGIN; INSERT INTO t SELECT hex(zeroblob(500)) FROM pragma_function_list; COMMIT")
c.executescript("PRAGMA cache_size = 5; BEGIN; UPDATE t SET a = 'y' || a")
os._exit(0)
"""


def interrupted_write(path: Path) -> None:
    subprocess.run([sys.executable, "-c", HOT, str(path)], check=True)


async def test_an_unfinished_write_is_not_repaired(tmp_path: Path) -> None:
    path = tmp_path / "hot.db"
    interrupted_write(path)
    before = contents(tmp_path)
    assert "hot.db-journal" in before
    data = await call(DatabaseQuery(path), query="SELECT count(*) FROM t")
    assert is_failure(data)
    assert "a program stopped in the middle of a write; open it once" in data["message"]
    assert contents(tmp_path) == before


# --- what never stops by itself --------------------------------------------------------------------------------------


def children() -> list[int]:
    """Living child processes of this one that run a worker."""
    mark, found = b"database_worker", []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            status, line = Path(f"/proc/{name}/stat").read_text(), Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if mark in line and int(status.rpartition(")")[2].split()[1]) == os.getpid():
            found.append(int(name))
    return found


async def until_running() -> None:
    for _ in range(1_000):
        if children():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("no worker was started")


async def heart(gaps: list[float]) -> None:
    """The pauses between two beats of the event loop."""
    last = time.monotonic()
    while True:
        await asyncio.sleep(0.01)
        now = time.monotonic()
        gaps.append(now - last)
        last = now


async def test_a_function_that_computes_for_minutes_is_ended_and_the_loop_lives(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    gaps: list[float] = []
    beating = asyncio.ensure_future(heart(gaps))
    started = time.monotonic()
    data = await call(DatabaseQuery(world.path), query=ENDLESS)
    took = time.monotonic() - started
    beating.cancel()
    with capsys.disabled():
        sys.stdout.write(f"\n  longest pause of the event loop {max(gaps):.3f} s, in {took:.1f} s\n")
    assert is_failure(data)
    assert data["message"].startswith("the query was stopped after 5 s")
    assert took < 20
    assert max(gaps) < 1
    assert not children()


@pytest.mark.parametrize(
    "query", [ENDLESS, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"]
)
async def test_stop_ends_it_within_a_second_and_leaves_no_process(world: World, query: str) -> None:
    model = ScriptedModel([Reply(tool_calls=[("database-query", {"query": query})]), "never"])
    stage = Stage(model, [DatabaseQuery(world.path)])
    running = asyncio.ensure_future(stage.ask())
    await stage.until("tool.started")
    await until_running()
    started = time.monotonic()
    stage.session.cancel()
    result = await running
    assert result.status == "cancelled"
    assert time.monotonic() - started < 2
    assert not children()
    stage.check()


async def test_memory_is_bounded(world: World) -> None:
    queries = (
        "SELECT count(*) FROM (SELECT hex(zeroblob(4000000)) || a.rowid AS x FROM big a ORDER BY x)",
        "SELECT group_concat(a.name || b.name) FROM big a, big b",
    )
    for query in queries:
        assert is_failure(await call(DatabaseQuery(world.path), query=query))
    assert not children()


# --- what was shown is what runs -------------------------------------------------------------------------------------


def context(preview: TextPreview | None = None) -> ToolContext:
    session: Any = None
    return ToolContext(session=session, call_id="c", signal=CancelSignal(), logger=logging.getLogger(), preview=preview)


async def test_a_card_shows_the_statement_and_its_values_and_nothing_else_runs(world: World) -> None:
    tool = DatabaseQuery(world.path)
    args = {"query": "SELECT name FROM users WHERE id = ?", "params": [1]}
    shown = tool.preview(args, context())
    assert (shown.title, shown.text) == ("Query data.db", "SELECT name FROM users WHERE id = ?\n\nparams: [1]")
    assert (await tool.execute(args, context(shown))).data["rows"] == [{"name": "Alice"}]
    for other in ({**args, "params": [2]}, {"query": "SELECT 1"}):
        assert is_failure((await tool.execute(other, context(shown))).data)
    assert is_failure((await tool.execute(args, context(replace(shown, digest=None)))).data)
    shutil.copy(world.path, world.folder / "other.db")
    os.replace(world.folder / "other.db", world.path)
    data = (await tool.execute(args, context(shown))).data
    assert is_failure(data)
    assert data["message"].startswith("another file is at the place of the database")


@pytest.mark.parametrize(("page", "kept"), [(512, 1023), (512, 600), (65_536, 70_000)])
async def test_a_copy_that_broke_off_within_a_page_is_not_read(tmp_path: Path, page: int, kept: int) -> None:
    path = tmp_path / "cut.db"
    connection = sqlite3.connect(path)
    connection.executescript(f"PRAGMA page_size = {page}; CREATE TABLE t(x); INSERT INTO t VALUES (1)")
    connection.close()
    whole = path.read_bytes()
    assert (await call(DatabaseQuery(path), query="SELECT x FROM t"))["rows"] == [{"x": 1}]
    path.write_bytes(whole[:kept])
    data = await call(DatabaseQuery(path), query="SELECT x FROM t")
    assert is_failure(data)
    assert data["message"] == "cut.db is not a SQLite database, or it is damaged: it ends in the middle of a page"
