"""What a person does to get a tool that a run does not offer."""

from __future__ import annotations

_ENABLED = 'built_in_tools=BuiltInToolConfig(enabled=[*DEFAULT_BUILT_IN_TOOLS, "{tool}"]{more})'
_OFF_BY_DEFAULT = {
    "file-read": "",
    "file-write": "",
    "shell-exec": "",
    "code-eval": "",
    "database-query": ', database_path="my.db"',
}
_ON_BY_DEFAULT = ("http-fetch", "date-time", "json-parse", "math-eval", "regex-match")
_CORE = (
    "list_dir",
    "glob",
    "grep",
    "read_file",
    "write_file",
    "edit_file",
    "shell",
    "web_fetch",
    "todo_write",
    "finish",
)
_NOTEBOOK = ("run_python", "list_variables", "inspect_variable", "insert_cell")


def how_to_enable(tool: str) -> str:
    """A sentence that says how ``tool`` comes to be offered; nothing for a tool of a plugin unknown here."""
    if tool in _OFF_BY_DEFAULT:
        config = _ENABLED.format(tool=tool, more=_OFF_BY_DEFAULT[tool])
        return f"It is off by default: make an app with `Kestrel({config})`; `%kestrel use app` makes cells use it."
    if tool == "web-search":
        return (
            "It is offered once there is a search service: make an app with "
            "`Kestrel(built_in_tools=BuiltInToolConfig(web_search_provider=...))`."
        )
    if tool == "image-describe":
        return "It is offered once there is a model that sees images."
    if tool in _ON_BY_DEFAULT or tool in _CORE:
        return "It is on by default, so the configuration of this app, a tool policy or `-t` leaves it out."
    if tool in _NOTEBOOK:
        return "It is there where `%load_ext kestrel_nb` was run."
    return ""
