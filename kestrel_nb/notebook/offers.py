"""What Tab can offer: models, sessions, tools, questions, variables and words, by the names that the tables use.

Everything here is looked up in memory: no application or session is made, and no session is read from the disk. No
code of a user's object runs either.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..app import Kestrel
from ..protocol.sessions import ModelInfo
from ..protocol.tools import ToolSchema
from ..runtime.models import ModelRegistry
from ..runtime.plugins import PluginContext
from ..runtime.store_place import store_folder
from ..runtime.tools import ToolRegistry
from .cell import OPTIONS, Option
from .handle import RunHandle
from .state import NotebookState
from .static import is_descriptor, static_member, type_word
from .variables import user_variables

ABOUT = 44  # characters beside an offer
MOST = 200  # offers of one kind; IPython itself passes on 500 in all


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing to take: its text, and a word or two about it that the list shows beside it."""

    text: str
    about: str = ""


def short(text: str) -> str:
    """The first sentence, as much of it as fits beside an offer."""
    line = " ".join(text.split()).split(". ", 1)[0].rstrip(".")
    return line if len(line) <= ABOUT else line[: ABOUT - 1].rstrip(" ,") + "…"


@dataclass(frozen=True, slots=True)
class Offers:
    """What can stand in the place of ``fragment``, the text just before the cursor. ``items`` may be empty."""

    fragment: str = ""
    items: tuple[Offer, ...] = ()


def matching(fragment: str, offers: Iterable[Offer], after: str = "") -> Offers:
    """Those that begin as ``fragment`` does; a quote that it begins with stays, and is closed."""
    quote = fragment[:1] if fragment.startswith(("'", '"')) else ""
    typed = fragment[len(quote) :]
    close = "" if quote and after.startswith(quote) else quote
    return Offers(
        fragment,
        tuple(Offer(quote + offer.text + close, offer.about) for offer in offers if offer.text.startswith(typed)),
    )


def offers_of(spec: str, state: NotebookState) -> list[Offer]:
    """What the sources in ``spec`` have now: names joined by "|", or ``=word`` for the word itself."""
    found: dict[str, Offer] = {}
    for name in spec.split("|") if spec else ():
        for offer in [Offer(name[1:], "word")] if name.startswith("=") else SOURCES[name](state):
            found.setdefault(offer.text, offer)
    return list(found.values())


def option_offers(options: Iterable[Option]) -> list[Offer]:
    """The names of ``options``, short ones too, with their help."""
    return [Offer(name, short(option.help)) for option in options for name in option.names]


# ---- sources ------------------------------------------------------------------------------------------------------


def _commands(state: NotebookState) -> list[Offer]:
    from .commands import COMMANDS

    return [Offer(name, short(command.help)) for name, command in COMMANDS.items()]


def _options(state: NotebookState) -> list[Offer]:
    return option_offers(OPTIONS)


def _models(state: NotebookState) -> list[Offer]:
    """The registered models, then those that listings have found, then the providers whose models can be named."""
    from ..providers.known import LOCAL, PROVIDERS

    if state.has_app:
        infos = [*state.app.models.list()[:MOST], *state.app.catalog.listed]
    else:
        from ..providers.demo import DemoModel

        infos = [DemoModel().info]
    models = [Offer(info.id, info.label or info.provider) for info in infos]
    models += [Offer(f"{name}:", provider.title) for name, provider in PROVIDERS.items()]
    return [*models, Offer(f"{LOCAL}:", "a file on this machine")]


def _providers(state: NotebookState) -> list[Offer]:
    from ..providers.known import LOCAL, PROVIDERS

    offers = [Offer(name, provider.title) for name, provider in PROVIDERS.items()]
    return [*offers, Offer(LOCAL, "a file on this machine")]


def _tools(state: NotebookState) -> list[Offer]:
    schemas = state.app.tools.schemas() if state.has_app else _tools_of_a_new_app(state)
    if state.has_app:
        schemas = [schema for schema in schemas if state.app.tool_policy.refusal(schema.name) is None]
    return [Offer(schema.name, short(schema.description)) for schema in schemas[:MOST]]


def _tools_of_a_new_app(state: NotebookState) -> list[ToolSchema]:
    """The tools that the application made at first use will have, as far as they are always there."""
    from ..plugins.builtin_tools.plugin import BuiltInTools
    from ..plugins.core_tools.plugin import CoreTools
    from .kernel_tools import NotebookTools

    tools = ToolRegistry()
    nobody = logging.getLogger(__name__)
    context = PluginContext(
        config={},
        logger=nobody,
        models=ModelRegistry(),
        tools=tools,
        subscribe_events=_dropped,
        guard_sessions=_dropped,
        add_permission_rule=_dropped,
    )
    CoreTools().activate(context)
    BuiltInTools().activate(context)
    NotebookTools(state.shell).activate(context)
    return tools.schemas()


def _dropped(_: Any) -> Callable[[], None]:
    return lambda: None


def _sessions(state: NotebookState) -> list[Offer]:
    if state.has_app:
        return [Offer(summary.id, short(summary.title) or "session") for summary in state.app.sessions.list()[:MOST]]
    folder = os.path.join(store_folder(), "sessions")
    try:
        changed = os.stat(folder).st_mtime_ns
    except OSError:
        return []
    if _stored.get(folder, (0, []))[0] != changed:
        _stored[folder] = (changed, _folders_in(folder))
    return [Offer(name, "session") for name in _stored[folder][1]]


_stored: dict[str, tuple[int, list[str]]] = {}  # folder of sessions -> when it changed last, and its names then


def _folders_in(folder: str) -> list[str]:
    """The names of stored sessions, the one used last first. Only the folder is read, none of the sessions."""
    used = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    used.append((-entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
            except OSError:
                continue
    return [name for _, name in sorted(used)[:MOST]]


def _approvals(state: NotebookState) -> list[Offer]:
    """The questions that wait: their short names first, then the whole ids."""
    pending = state.app.approvals.pending()[:MOST] if state.has_app else []
    short = [Offer(state.short_id(request), f"{request.tool} waits") for request in pending]
    return short + [Offer(request.id, f"{request.tool} waits") for request in pending]


def _messages(state: NotebookState) -> list[Offer]:
    """The user messages of this kernel's session by number, the first is 1."""
    session = state.begun
    said = [message.content for message in session.messages if message.role == "user"] if session else []
    return [Offer(str(number), short(text) or "message") for number, text in enumerate(said, 1)]


def _cassettes(state: NotebookState) -> list[Offer]:
    """The files in the working folder that may be cassettes."""
    try:
        names = sorted(name for name in os.listdir() if name.endswith(".jsonl"))[:MOST]
    except OSError:
        return []
    return [Offer(f'"{name}"' if " " in name else name, "file") for name in names if name.isprintable()]


def _variables(test: Callable[[Any], bool]) -> Callable[[NotebookState], list[Offer]]:
    def source(state: NotebookState) -> list[Offer]:
        named = sorted(user_variables(state.shell).items())
        return [Offer(name, type_word(value)) for name, value in named if name.isidentifier() and test(value)][:MOST]

    return source


def holds_tool(value: Any) -> bool:
    """Whether an object looks like a tool, without asking it."""
    schema = static_member(value, "schema")
    return static_member(value, "execute") is not None and (type(schema) is ToolSchema or is_descriptor(schema))


def holds_model(value: Any) -> bool:
    """Whether an object looks like a model, without asking it."""
    info = static_member(value, "info")
    has_info = type(info) is ModelInfo or is_descriptor(info)
    return not isinstance(value, type) and has_info and static_member(value, "generate") is not None


SOURCES: dict[str, Callable[[NotebookState], list[Offer]]] = {
    "command": _commands,
    "option": _options,
    "model": _models,
    "provider": _providers,
    "tool": _tools,
    "session": _sessions,
    "approval": _approvals,
    "message": _messages,
    "cassette": _cassettes,
    "variable": _variables(lambda value: True),
    "run": _variables(lambda value: issubclass(type(value), RunHandle)),
    "app": _variables(lambda value: issubclass(type(value), Kestrel)),
    "usertool": _variables(holds_tool),
    "usermodel": _variables(holds_model),
}
