"""What ``%kestrel doctor`` looks at: versions, the front end, the store, models and keys, rules. Nothing is changed.

Each check gives lines and may raise: ``looked_at`` makes a line of that too, because a doctor is called when something
is broken.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from ..runtime.secrets import Masker
from . import waiting
from .cell import CellOptions
from .checkup_line import Line as Line
from .checkup_models import extras, keys

if TYPE_CHECKING:
    from .state import NotebookState

SESSIONS = "sessions"  # the folder in the store that holds them
LITTLE_SPACE = 200 * 2**20  # bytes; a session rarely has more than one megabyte, a full disk stops it
ERROR_CHARS = 200
# The oldest versions that are known to work, as pyproject.toml says them; the last one is optional.
NEEDED = {"ipykernel": "7.4", "IPython": "", "ipywidgets": "8.1.5", "anywidget": "0.11", "pandas": "2.2"}
LAB = "4.6"
RUN_ONE = "not seen yet: run a %%kestrel cell, then this again"


def looked_at(state: NotebookState) -> list[Line]:
    """Every line, whatever is missing or broken."""
    lines: list[Line] = []
    for what, check in CHECKS.items():
        try:
            lines += check(state)
        except Exception as error:
            lines.append(Line(what, f"could not be looked at ({told(error)})", "problem"))
    return lines


def told(error: BaseException) -> str:
    """The error on one line, bounded, without keys that stand in the environment."""
    text = Masker.from_environment().mask(f"{type(error).__name__}: {error}")
    return " ".join(text.split())[:ERROR_CHARS]


# ---- versions -----------------------------------------------------------------------------------------------------


def _versions(state: NotebookState) -> Iterator[Line]:
    yield Line("Python", platform.python_version())
    own = _installed("kestrel-nb")
    yield (
        Line("kestrel-nb", own)
        if own
        else Line(
            "kestrel-nb", "version unknown, its metadata is missing", "note", "install it: pip install . in its folder"
        )
    )
    for name, oldest in NEEDED.items():
        yield _version(name, oldest)
    yield _lab()


def _version(name: str, oldest: str) -> Line:
    version = _installed(name)
    install = f'pip install -U "{name}>={oldest}"' if oldest else f"pip install -U {name}"
    if version is None:
        if name == "ipykernel" and waiting.kernel() is None:
            return Line(name, "not installed; a terminal needs none")
        return Line(name, "not installed, or its metadata is missing", "problem", f"{install}, then restart the kernel")
    if _numbers(version) < _numbers(oldest):
        return Line(name, f"{version}, too old", "problem", f"{install}, then restart the kernel")
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:  # a build for another Python, or a file of that name in the folder
        return Line(name, f"{version}, but it can't be loaded ({told(error)})", "problem", _mend(name, install))
    loaded = getattr(module, "__version__", None)
    if not isinstance(loaded, str):
        return Line(name, f"{version}, but another module of that name was loaded", "problem", _mend(name, install))
    if _numbers(loaded) != _numbers(version):
        return Line(name, f"{version} is installed, {loaded} is loaded", "problem", "restart the kernel")
    return Line(name, version)


def _mend(name: str, install: str) -> str:
    """What to do about a package that is there and does not work. Nothing is loaded to find out which file it is."""
    found = PathFinder.find_spec(name)
    place = found.origin if found and found.origin else None
    if place is None or "site-packages" in place or "dist-packages" in place:
        return f"{install} --force-reinstall, then restart the kernel"
    return f"{place} stands in its way: rename that, then restart the kernel"


def _lab() -> Line:
    version = _installed("jupyterlab")
    if version is None:
        return Line("jupyterlab", "not in this environment, which is fine where it runs from another one")
    if _numbers(version) < _numbers(LAB):
        return Line(
            "jupyterlab", f"{version}, older than what was tried", "note", f'pip install -U "jupyterlab>={LAB}"'
        )
    return Line("jupyterlab", version)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name) or None
    except Exception:  # no metadata, or damaged metadata
        return None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.split("+", 1)[0])[:3]]


# ---- the front end ------------------------------------------------------------------------------------------------


def _front_end(state: NotebookState) -> Iterator[Line]:
    in_kernel = waiting.kernel() is not None
    asks = waiting.stdin_allowed()
    yield Line("shell", "a Jupyter kernel" if in_kernel else "IPython in a terminal: runs are shown as text")
    yield _asking(asks)
    yield _clicks(in_kernel)
    yield _view(state, in_kernel)
    if in_kernel and not asks:
        yield Line("insert_cell", "no cell can be inserted here; its code is shown instead", "note")
    else:
        yield Line("insert_cell", "can put a cell below the running one" if in_kernel else "offers code at the prompt")
    if state.shell.autoawait:
        yield Line("autoawait", "on")
    else:
        yield Line("autoawait", "off: cells can't wait for a run", "problem", "%autoawait on")


def _asking(asks: bool) -> Line:
    if asks:
        return Line("asking on stdin", "allowed")
    return Line("asking on stdin", "not allowed: the headless policy answers questions", "note")


def _clicks(in_kernel: bool) -> Line:
    if not in_kernel:
        return Line("clicks", "no buttons in a terminal; questions are asked there")
    if waiting.hears_clicks_while_awaiting():
        return Line("clicks", "heard while a cell awaits")
    todo = f'pip install -U "ipykernel>={waiting.OLDEST_IPYKERNEL}", then restart the kernel'
    return Line("clicks", "not heard while a cell awaits", "problem", todo)


def _view(state: NotebookState, in_kernel: bool) -> Line:
    if not in_kernel:
        return Line("live view", "none in a terminal")
    if state.views_drawn:
        return Line("live view", "a page has drawn one in this kernel: widgets work")
    if not state.views_shown:
        return Line("live view", RUN_ONE, "note")
    # A run that ends at once may be over before its page could say that it drew it: no proof of a fault.
    todo = "if a run of some seconds shows none: install anywidget where the front end runs too, and reload the page"
    return Line("live view", "no page has said that it drew one", "note", todo)


# ---- store and workspace ------------------------------------------------------------------------------------------


def _store(state: NotebookState) -> Iterator[Line]:
    from ..runtime.store_place import HOME_VARIABLE, store_folder

    folder = store_folder()
    there = os.path.join(folder, SESSIONS)
    while not os.path.lexists(there) and os.path.dirname(there) != there:
        there = os.path.dirname(there)
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        said = f"{folder}: can't be written ({error.strerror or type(error).__name__})"
        yield Line("store", said, "problem", f"make it writable, or name another folder by {HOME_VARIABLE}")
    else:
        yield Line("store", folder if os.path.isdir(folder) else f"{folder}, made at the first run")
    free = shutil.disk_usage(there if os.path.isdir(there) else os.path.dirname(there)).free
    room = f"{free / 2**30:,.1f} GB free" if free >= 2**30 else f"{free / 2**20:,.0f} MB free"
    little = free < LITTLE_SPACE
    yield Line("room for sessions", room, "problem" if little else "ok", "make room on that disk" if little else "")


def _sessions(state: NotebookState) -> Iterator[Line]:
    summaries = state.app.sessions.list()
    here = sum(summary.workspace == state.app.workspace for summary in summaries)
    yield Line("sessions", f"{len(summaries)}, of this folder {here}")


def _workspace(state: NotebookState) -> Iterator[Line]:
    folder = state.app.workspace
    if not os.path.isdir(folder):
        yield Line("workspace", f"{folder} is gone", "problem", "%cd to a folder that exists, and restart the kernel")
    elif not os.access(folder, os.W_OK):
        yield Line("workspace", f"{folder}, read-only", "note", "tools can read there, not write")
    else:
        yield Line("workspace", folder)


# ---- who answers, and what ----------------------------------------------------------------------------------------


def _policy(state: NotebookState) -> Iterator[Line]:
    from .state import POLICY_VARIABLE

    source = (
        "%config Kestrel.headless"
        if state.settings.headless
        else f"the variable {POLICY_VARIABLE}"
        if os.environ.get(POLICY_VARIABLE)
        else "nobody said another"
    )
    yield Line("headless policy", f"{state.policy(CellOptions())} ({source})")


def _models(state: NotebookState) -> Iterator[Line]:
    models = state.app.models
    names = ", ".join(info.id for info in models.list())
    yield Line("models", f"{names or 'none'}; the default is {models.default_model or 'none'}")
    wanted = state.settings.model
    if wanted and not models.has(wanted):
        yield Line("Kestrel.model", f'"{wanted}" is no model here', "problem", "%config Kestrel.model says which one")


def _rules(state: NotebookState) -> Iterator[Line]:
    session = state.begun
    rules = session.rules if session else state.app.sessions.rules
    problems = state.rules.news()
    yield from (Line("policy rules", problem, "problem", "%kestrel policy shows them") for problem in problems)
    if not problems:
        yield Line("policy rules", f"{len(rules)} in force" if rules else "none: each tool's own permission holds")


def _cassette(state: NotebookState) -> Iterator[Line]:
    from .cassette_words import about

    for said, advice in about(state):
        yield Line("cassette", said, "problem" if advice else "ok", advice)


def _others(state: NotebookState) -> Iterator[Line]:
    applied = hasattr(asyncio, "_nest_patched")
    yield Line("nest_asyncio", "applied in this kernel, by run_sync or a library" if applied else "not applied")
    shell = shutil.which("bash") or shutil.which("sh")
    yield (
        Line("shell program", shell) if shell else Line("shell program", "neither bash nor sh", "note", "install bash")
    )
    yield Line("rg", "found, not needed" if shutil.which("rg") else "not found, not needed")


CHECKS: dict[str, Callable[[NotebookState], Iterator[Line]]] = {
    "versions": _versions,
    "front end": _front_end,
    "store": _store,
    "sessions": _sessions,
    "workspace": _workspace,
    "headless policy": _policy,
    "models": _models,
    "keys": keys,
    "extras": extras,
    "policy rules": _rules,
    "cassette": _cassette,
    "others": _others,
}
