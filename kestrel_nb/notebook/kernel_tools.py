"""The plugin ``notebook``: tools that work in the user's own kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..protocol.tools import TextPreview, ToolSchema
from ..runtime.plugins import PluginContext
from ..runtime.secrets import Masker
from ..runtime.tools import ToolContext, ToolExecutionResult
from .inserting import InsertCell
from .inspecting import NO_DATA, InspectVariable, ListVariables
from .python_results import result_of
from .python_runs import LONGEST, checked, run_python

if TYPE_CHECKING:
    from .state import NotebookState


class NotebookTools:
    """``run_python``, ``list_variables``, ``inspect_variable`` and ``insert_cell`` for the shell of a notebook.

    ``shell``: the IPython shell, by default the one that runs when the plugin is activated.
    """

    name = "notebook"

    def __init__(self, shell: Any = None) -> None:
        self._shell = shell

    def activate(self, context: PluginContext) -> None:
        """Register the tools. Raises KestrelError outside IPython."""
        from .state import current, state_of

        state = current() if self._shell is None else state_of(self._shell)
        for tool in (RunPython(state), ListVariables(state), InspectVariable(state), InsertCell(state)):
            context.add_tool(tool, check=False)


class RunPython:
    """The tool ``run_python``.

    ``data``: the last value's ``columns``, ``rows`` and ``dtypes`` when it is a table (``total_rows``,
    ``total_columns`` when there are more), else those of the changed variables; ``figures`` (type, base64 data, width,
    height in pixels), ``variables`` (names that are new, changed, gone), and in a run that sends no data ``unsent``,
    the text that no model reads.
    ``value_at``: from where to where the table stands in the text, so that a view need not show it twice.
    """

    schema = ToolSchema(
        name="run_python",
        description=(
            "Run Python code in the person's notebook kernel, in their namespace, as a cell of theirs would run: "
            "IPython magics, top-level await, plots. Variables stay. You read what it prints and the last "
            "expression's value, of a long table its first rows. Figures are shown to the person. There is no standard "
            "input."
        ),
        parameters={
            "type": "object",
            "properties": {
                "code": {"type": "string", "minLength": 1, "maxLength": LONGEST, "description": "The Python code."}
            },
            "required": ["code"],
            "additionalProperties": False,
        },
        permission="ask",
        category="notebook",
        deterministic=False,
        in_kernel=True,
    )

    def __init__(self, state: NotebookState) -> None:
        self._state = state

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> TextPreview:
        """The code, all of it. Raises ToolCallError for code that can't be run."""
        return TextPreview(title="Python", text=checked(args["code"]))

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Run the code; that it raised is a result. Raises ToolCallError for code that can't be run."""
        code, settings = checked(args["code"]), self._state.settings
        before = Masker.from_environment()
        limit_s = settings.python_timeout_s
        done = await run_python(self._state.shell, code, context.signal, limit_s=limit_s)
        masker = Masker({*before.secrets, *Masker.from_environment().secrets})
        no_data = bool(context.session.metadata.get(NO_DATA) or settings.no_data)
        return result_of(done, masker, limit_s=limit_s, no_data=no_data)
