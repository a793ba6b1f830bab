"""database-query: one read-only SQL statement on the database that the user named."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...protocol.tools import TextPreview, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.database import MAX_ROWS, TIMEOUT_S, Answer, DatabaseError, DatabaseFile, ask, find_database
from ..shapes import parameters
from .answers import answer, failure

_INT64 = range(-(2**63), 2**63)


class DatabaseQuery:
    """``data``: rows (objects), rowCount, columns, and truncated (True) when it is not all; or error (True), message.

    ``columns`` has every column; where two have one name, the keys in ``rows`` are made unique: x, x_2. Integers are
    exact, infinities are "Infinity" and "-Infinity", blobs "base64:...", NULL is null. At most 1,000 rows, a million
    characters in all and 100,000 in a cell are given; a longer cell is cut and says so. ``rowCount`` counts the rows
    given. A query may take 5 seconds, then its process is ended.

    The file is only read, and nothing appears beside it: a database with a write-ahead log is read together with the
    log, but never recovered. Its functions that reach outside, ATTACH, PRAGMA and everything that writes are refused;
    the columns of a table are in ``pragma_table_info('t')``. ``path`` is relative to the folder of the process.
    """

    schema = ToolSchema(
        name="database-query",
        description=(
            "Run one read-only SQL query (SELECT, WITH ... SELECT) on the SQLite database that the user configured. "
            f"Gives at most {MAX_ROWS:,} rows, within {TIMEOUT_S:g} seconds. Tables are listed in sqlite_master."
        ),
        category="data",
        parallel_safe=True,
        read_only=True,
        deterministic=False,  # the database is no file of the workspace, and others may write to it
        parameters=parameters(
            {
                "query": {"type": "string", "description": "One statement; ? stands for a value of params."},
                "params": {
                    "type": "array",
                    "items": {"description": "Text, a number, true, false or null."},
                    "description": "The values for the ? of the query, in order.",
                },
            },
            required=("query",),
        ),
    )

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = os.path.abspath(os.path.expanduser(path)) if path else None

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> TextPreview:
        """The statement and its values. Raises ToolCallError when there is no database to ask."""
        file, params = self._file(), args.get("params") or []
        text = str(args["query"])
        if params:
            text += f"\n\nparams: {json.dumps(params, ensure_ascii=False)}"
        return TextPreview(title=f"Query {file.name}", text=text, digest=_digest(file, args["query"], params))

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Ask the database; whatever keeps it from answering is an error object."""
        query, params = str(args["query"]), args.get("params") or []
        try:
            _check(params)
            file = self._file()
            shown = context.preview
            if isinstance(shown, TextPreview) and shown.digest != _digest(file, query, params):
                return failure("another file is at the place of the database than when the query was shown; ask again")
            return answer(_data(await ask(file, query, params, stop=context.signal.wait)))
        except DatabaseError as error:
            return failure(str(error))

    def _file(self) -> DatabaseFile:
        if self._path is None:
            raise DatabaseError("no database is configured: set database_path in the configuration of built-in tools")
        return find_database(self._path)


def _digest(file: DatabaseFile, query: str, params: Sequence[Any]) -> str:
    shown = json.dumps([file.path, file.device, file.inode, query, params])
    return hashlib.sha256(shown.encode("ascii")).hexdigest()


def _check(params: Sequence[Any]) -> None:
    """Raise DatabaseError for a value that SQLite has no type for."""
    for number, value in enumerate(params, 1):
        if value is not None and not isinstance(value, (str, int, float)):
            raise DatabaseError(f"params: value {number} must be text, a number, true, false or null")
        if isinstance(value, int) and value not in _INT64:
            raise DatabaseError(f"params: value {number} is beyond 64 bits; SQLite has no such integer")


def _data(found: Answer) -> dict[str, Any]:
    keys = _unique(found.columns)
    rows = [dict(zip(keys, row, strict=True)) for row in found.rows]
    data = {"rows": rows, "rowCount": len(rows), "columns": found.columns}
    return {**data, "truncated": True} if found.truncated else data


def _unique(names: Sequence[str]) -> list[str]:
    """``names``, each once: a later one that is taken gets a number."""
    taken = set(names)
    used: set[str] = set()
    keys: list[str] = []
    for name in names:
        key, number = name, 1
        while key in used or (number > 1 and key in taken):
            number += 1
            key = f"{name}_{number}"
        used.add(key)
        keys.append(key)
    return keys
