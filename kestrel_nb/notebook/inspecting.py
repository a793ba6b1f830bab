"""``list_variables`` and ``inspect_variable``: what a model may learn of the user's variables unasked.

Types and shapes, and for one variable its schema. More than that only as far as the person has gone: in a request of
the session (``{df:head 5}``), or by the setting ``disclosure``. Nothing here runs code of the user's: attributes are
read as they are kept, items from built-in containers and tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ToolCallError
from ..protocol.tools import ToolSchema
from ..runtime.secrets import Masker
from ..runtime.tools import ToolContext, ToolExecutionResult
from ..sandbox.output import plural
from .disclosure import HEAD_ROWS, LEVELS, Level, disclose, is_table
from .disclosure_kinds import hides, is_a, kind_of, read
from .references import path_of
from .static import member_value
from .variables import Variable, described, user_variables
from .visible import one_line

if TYPE_CHECKING:
    from .state import NotebookState

LISTED = 200  # variables that are told; more are counted
NAMED = 80  # characters of a name

DISCLOSED = "disclosed"  # in a session's metadata: variable -> the level that its requests have disclosed
NO_DATA = "no_data"  # in a session's metadata: True while a run must send no values

_NONE: Any = object()


class ListVariables:
    """The tool ``list_variables``. ``data``: a list of name, type, shape."""

    schema = ToolSchema(
        name="list_variables",
        description="List the variables of the person's notebook: names, types and shapes, no values.",
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
        category="notebook",
        deterministic=False,
        read_only=True,
    )

    def __init__(self, state: NotebookState) -> None:
        self._state = state

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """One line a variable, sorted by name."""
        variables = user_variables(self._state.shell)
        told = [described(name, variables[name]) for name in sorted(variables)[:LISTED]]
        lines = [f"{one_line(variable.name, NAMED)}: {brief_of(variable)}" for variable in told]
        if len(variables) > LISTED:
            lines.append(f"… {plural(len(variables) - LISTED, 'more variable')}")
        rows = [{"name": v.name, "type": v.type, "shape": "" if hides(v.name) else v.shape} for v in told]
        return ToolExecutionResult(content="\n".join(lines) or "the notebook has no variables yet", data=rows)


class InspectVariable:
    """The tool ``inspect_variable``."""

    schema = ToolSchema(
        name="inspect_variable",
        description=(
            "Look at one variable of the person's notebook. By default its schema: columns and dtypes of a table, "
            "types and sizes of anything else, no values. A higher level gives values as far as the person allows it."
        ),
        parameters={
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "minLength": 1,
                    "description": 'A variable, or a part of one: df, df.price, config["path"], rows[0].',
                },
                "level": {"type": "string", "enum": list(LEVELS), "description": 'Default "schema".'},
                "rows": {"type": "integer", "minimum": 1, "maximum": HEAD_ROWS, "description": "Of head. Default 5."},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        category="notebook",
        deterministic=False,
        read_only=True,
    )

    def __init__(self, state: NotebookState) -> None:
        self._state = state

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """The value at the level that is allowed, and how the person allows more. Raises ToolCallError."""
        path = str(args["name"]).strip()
        names, root, value = self._find(path)
        asked: Level = args.get("level") or "schema"
        inside = is_table(value) and not is_table(root)  # of a list, a dict ... a request tells its tables' shapes only
        allowed = self._allowed("" if inside else names[0], context.session.metadata)
        level = min(asked, allowed, key=LEVELS.index)
        hidden = next((name for name in names if hides(name, value)), "")
        told = disclose(value, level, rows=int(args.get("rows") or 5), name=hidden)
        lines = [f"{one_line(path, NAMED)}: {told.text}"]
        if asked != level:
            lines.append(self._refusal(path if inside else names[0], asked, level, context.session.metadata))
        return ToolExecutionResult(content=Masker.from_environment().mask("\n".join(lines)))

    def _allowed(self, name: str, metadata: Mapping[str, Any]) -> Level:
        settings = self._state.settings
        if metadata.get(NO_DATA) or settings.no_data:
            return "schema"
        said: Level = (metadata.get(DISCLOSED) or {}).get(name, "schema")
        general: Level = settings.disclosure
        return max(said, general, key=LEVELS.index)

    def _refusal(self, name: str, asked: Level, level: Level, metadata: Mapping[str, Any]) -> str:
        if metadata.get(NO_DATA) or self._state.settings.no_data:
            return f'No more than "{level}" is sent: the person has chosen to send no data.'
        wanted = "head 5" if asked == "head" else asked
        return (
            f'No more than "{level}" is allowed here. The person can allow it: by {{{name}:{wanted}}} in a request, '
            f'or by %config Kestrel.disclosure = "{asked}".'
        )

    # ---- finding it -------------------------------------------------------------------------------------------

    def _find(self, path: str) -> tuple[list[str], Any, Any]:
        """The names on the way, the variable's value, the path's. Raises ToolCallError with the nearest names."""
        found = path_of(path)
        if found is None:
            raise ToolCallError(f'"{one_line(path, NAMED)}" is no variable; examples: df, df.price, config["path"]')
        variables = user_variables(self._state.shell)
        if found[0] not in variables:
            near = get_close_matches(found[0], variables, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else "list_variables lists them"
            raise ToolCallError(f'no variable "{one_line(found[0], NAMED)}"; {hint}')
        names, root = [found[0]], variables[found[0]]
        value = root
        for key, dotted in found[1]:
            inner = _part(value, key, dotted=dotted)
            if inner is _NONE:
                raise ToolCallError(f"{one_line(path, NAMED)}: {_missing(value, key)}")
            names.append(str(key))
            value = inner
        return names, root, value


def brief_of(variable: Variable) -> str:
    """Type and shape in one line; below a name like a key's the type only: the length of a password is its own."""
    return variable.type if hides(variable.name) else variable.brief


def _part(value: Any, key: int | str, *, dotted: bool) -> Any:
    """An attribute, column or item; ``_NONE`` when there is none, or when only code could say it."""
    if kind_of(value) in ("frame", "columnar") and read(lambda: key in list(value.columns), False):
        return read(lambda: value[key], _NONE)
    if dotted:
        name = str(key)
        kept = None if name.startswith("_") or kind_of(value) else read(lambda: member_value(value, name), None)
        return _NONE if kept is None else kept
    if is_a(value, dict):
        return dict.get(value, key, _NONE)
    base = next((base for base in (list, tuple) if is_a(value, base)), None)
    if base is not None and isinstance(key, int):
        return read(lambda: base.__getitem__(value, key), _NONE)
    return _NONE


def _missing(value: Any, key: int | str) -> str:
    names: list[Any] = read(lambda: list(value.columns), []) if kind_of(value) in ("frame", "columnar") else []
    names = list(dict.keys(value)) if is_a(value, dict) else names
    near = get_close_matches(str(key), [name for name in names[:1_000] if type(name) is str], n=3)
    hint = f"; did you mean {', '.join(one_line(name, NAMED) for name in near)}?" if near else ""
    return f"there is no {one_line(str(key), NAMED)} that can be read without running code{hint}"
