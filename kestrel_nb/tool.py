"""``@tool``: a Python function as a tool.

The schema comes from the type hints, descriptions from the docstring (Google, NumPy or reST style). A parameter that is
annotated as ``ToolContext`` is given the context of the call and is not shown to the model. The function stays callable
as it was. Values that are returned become data for clients and a short text for the model:

    str                       the text
    None                      "done"
    ToolExecutionResult       itself
    DataFrame, Series         the frame; the text holds its size and first rows
    dataclasses, models, dicts, lists, numbers    JSON data; the text is that JSON
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from .protocol.errors import ToolCallError, ToolSchemaError
from .protocol.tools import ToolPermission, ToolSchema
from .runtime.signatures import documentation, model_of, schema_of
from .runtime.tables import figures_in, without_figures
from .runtime.tools import NAME, ToolContext, ToolExecutionResult

P = ParamSpec("P")
R = TypeVar("R")

CONTENT_CHARS = 10_000  # of a JSON result in the text for the model
FRAME_ROWS = 20  # of a frame in the text for the model


class FunctionTool(Generic[P, R]):
    """A function that is a tool. Calling it calls the function."""

    def __init__(self, function: Callable[P, R], schema: ToolSchema, model: Any, context_name: str | None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.schema = schema
        self._model = model
        self._context_name = context_name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.schema.name}>"

    def execute(
        self, args: Mapping[str, Any], context: ToolContext
    ) -> ToolExecutionResult | Awaitable[ToolExecutionResult]:
        """Call the function with ``args`` converted to what it is annotated with. Raises ToolCallError for bad ones."""
        value: Any = self.function(**self._arguments(args, context))  # type: ignore[call-arg]
        return _awaited(value, self.schema.name) if inspect.isawaitable(value) else result_of(value)

    def _arguments(self, args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        from pydantic import ValidationError

        try:
            parsed = self._model.model_validate(dict(args))
        except ValidationError as error:
            raise ToolCallError(f'Invalid arguments for "{self.schema.name}": {_issues(error)}') from None
        fields = type(parsed).model_fields
        given = {fields[name].alias: getattr(parsed, name) for name in parsed.model_fields_set}
        return {**given, self._context_name: context} if self._context_name else given


class AsyncFunctionTool(FunctionTool[P, R]):
    """A coroutine function that is a tool."""

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """See ``FunctionTool.execute``."""
        value: Any = self.function(**self._arguments(args, context))  # type: ignore[call-arg]
        return result_of(await value)


def _issues(error: Any) -> str:
    """What is wrong, as ``path: message; ...``."""
    texts = []
    for issue in error.errors(include_url=False, include_context=False, include_input=False):
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in issue["loc"]).lstrip(".")
        texts.append(f"{path}: {issue['msg']}" if path else str(issue["msg"]))
    return "; ".join(texts)


async def _awaited(value: Awaitable[Any], name: str) -> ToolExecutionResult:
    return result_of(await value)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    permission: ToolPermission = "auto",
    parallel_safe: bool = False,
    deterministic: bool = True,
    read_only: bool = False,
    in_kernel: bool = False,
    category: str | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    permission: ToolPermission = "auto",
    parallel_safe: bool = False,
    deterministic: bool = True,
    read_only: bool = False,
    in_kernel: bool = False,
    category: str | None = None,
) -> Any:
    """Make a tool of a function, bare or with settings; see ``ToolSchema`` for what they mean.

    Raises ToolSchemaError, with what to do, for a signature that JSON arguments can't serve.
    """

    def make(function: Callable[..., Any], names: Mapping[str, Any]) -> FunctionTool[..., Any]:
        if not callable(function):
            raise ToolSchemaError(f"@tool needs a function, not {type(function).__name__}; settings go by keyword")
        if permission not in ("auto", "ask"):
            raise ToolSchemaError(f'permission must be "auto" or "ask", not {permission!r}')
        title: str = name or str(getattr(function, "__name__", type(function).__name__))
        if not NAME.fullmatch(title):
            raise ToolSchemaError(f'tool name "{title}": use 1 to 64 letters, digits, "_" or "-"; set it with name=')
        doc, parameter_docs = documentation(function)
        model, context_name = model_of(function, title, parameter_docs, names)
        schema = ToolSchema(
            name=title,
            description=description or doc or title.replace("_", " "),
            parameters=schema_of(model, title),
            permission=permission,
            parallel_safe=parallel_safe,
            deterministic=deterministic,
            read_only=read_only,
            in_kernel=in_kernel,
            category=category,
        )
        kind = AsyncFunctionTool if inspect.iscoroutinefunction(function) else FunctionTool
        return kind(function, schema, model, context_name)

    if function is not None:
        return make(function, sys._getframe(1).f_locals)
    return lambda decorated: make(decorated, sys._getframe(1).f_locals)


# ---- values to results ------------------------------------------------------------------------------------------


def result_of(value: Any) -> ToolExecutionResult:
    """What a tool gives back for the ``value`` that its function returned."""
    if isinstance(value, ToolExecutionResult):
        return value
    if value is None:
        return ToolExecutionResult(content="done")
    if isinstance(value, str):
        return ToolExecutionResult(content=value)
    frame = _frame_in(value)
    if frame is not None:
        return ToolExecutionResult(content=_frame_text(frame), data=frame)
    data = _plain(list(value) if inspect.isgenerator(value) else value)
    text = data if isinstance(data, str) else json.dumps(without_figures(data), ensure_ascii=False, default=str)
    if len(text) > CONTENT_CHARS:
        text = f"{text[:CONTENT_CHARS]}\n[cut: {CONTENT_CHARS:,} of {len(text):,} characters shown; the data has all]"
    if figures := len(figures_in(data)):
        text += f"\n[{figures} {'figure' if figures == 1 else 'figures'}, which the person sees]"
    return ToolExecutionResult(content=text, data=data)


def _frame_in(value: Any) -> Any:
    """``value`` when it is a DataFrame or, as a frame, a Series; None otherwise. Looks only if pandas is loaded."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    if isinstance(value, pandas.Series):
        return value.to_frame()
    return value if isinstance(value, pandas.DataFrame) else None


def _frame_text(frame: Any) -> str:
    rows, columns = frame.shape
    head = f"{rows:,} {'row' if rows == 1 else 'rows'} × {columns:,} {'column' if columns == 1 else 'columns'}"
    if rows > FRAME_ROWS:
        head += f", the first {FRAME_ROWS} shown"
    return f"{head}\n{frame.head(FRAME_ROWS).to_string(max_colwidth=80)[:CONTENT_CHARS]}"


def _plain(value: Any) -> Any:
    """``value`` as JSON data. Raises ToolCallError for a value that contains itself."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value, by_alias=False, bytes_mode="base64", fallback=_other)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolCallError(f"the tool's result can't be written as JSON: {error}") from None


def _other(value: Any) -> Any:
    """Arrays and their numbers as Python's own, frames as their rows, other objects as text."""
    frame = _frame_in(value)
    if frame is not None:
        return frame.to_dict(orient="records")
    for method in ("tolist", "item"):
        convert = getattr(value, method, None)
        if callable(convert) and hasattr(value, "dtype"):
            return convert()
    return str(value)
