"""``%kestrel record`` and ``%kestrel replay``: which cassette cells go through, what is in it, and what is left."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..app import Kestrel
from ..protocol.errors import KestrelError, UsageError
from ..providers.cassette_wish import CASSETTE_VARIABLE, MODES, CassetteMode, Wish, wish
from .command import Command, Text
from .state import NotebookState

OFF, AUTO = "off", "--auto"
UNUSED = 5  # entries that the state names
AGAIN = "record again"


async def _record(state: NotebookState, words: list[str]) -> Text | None:
    paths = [word for word in words if word != AUTO]
    return _work(state, "auto" if paths != words else "record", paths or words, "record PATH [--auto]")


async def _replay(state: NotebookState, words: list[str]) -> Text | None:
    return _work(state, "replay", words, "replay PATH")


def _work(state: NotebookState, mode: CassetteMode, words: list[str], usage: str) -> Text | None:
    if not words:
        return Text(_state(state.app))
    if len(words) > 1 or words[0].startswith("-"):
        raise UsageError(f"usage: %kestrel {usage}, or %kestrel {usage.split()[0]} {OFF}")
    if words == [OFF]:
        state.cassettes.end(state.app)
        return None
    cassette = state.cassettes.choose(state.app, mode, words[0])
    state.begin_anew()  # what was said before is not in it, and whoever plays it has not said that
    # The same words whichever mode it is: a notebook that was recorded is compared with itself when it is played.
    said = f"Cells go through the cassette {words[0]}, in a new session."
    return Text(f"{said}\n{cassette.note}" if cassette.note else said)


def _state(app: Kestrel) -> str:
    said, cassette = wish(), app.cassette
    if cassette is None or not cassette.active:
        return f"No cassette: {_without_one(said)}. %kestrel record PATH begins one."
    cassette.open()
    unused = cassette.unused
    lines = [f"{cassette.mode}: {cassette.path}, {cassette.entries} entries, {len(unused)} of them not played yet"]
    lines += [f"    {entry}" for entry in unused[:UNUSED]]
    lines += [f"    and {len(unused) - UNUSED} more"] if len(unused) > UNUSED else []
    if value := os.environ.get(CASSETTE_VARIABLE):
        lines.append(f"{CASSETTE_VARIABLE} is {value}")
    return "\n".join(lines)


def _without_one(said: Wish) -> str:
    if said.mode == "replay":
        return f"{CASSETTE_VARIABLE} says replay, so cells that name none reach no model but demo and scripted ones"
    return "cells reach their models"


def about(state: NotebookState) -> Iterator[tuple[str, str]]:
    """What the doctor says, and what to do about it where it is a problem."""
    try:
        said = wish()
    except KestrelError as error:
        yield str(error), f"set {CASSETTE_VARIABLE} anew"
        return
    cassette = state.app.cassette
    if cassette is None or not cassette.active:
        yield f"none: {_without_one(said)}", ""
        return
    try:
        cassette.open()
    except KestrelError as error:
        yield f"{cassette.mode}: {error}", AGAIN
        return
    yield f"{cassette.mode}: {cassette.path}, {cassette.entries} entries", ""
    if cassette.note:
        yield cassette.note, AGAIN


_MORE: dict[str, tuple[tuple[str, str], ...]] = {
    "record": (
        ("record", "what goes through which cassette now"),
        ("record PATH", "ask the models, and record into this file; what it held stays beside it as PATH.bak"),
        ("record PATH --auto", "play what is recorded there, and record what is missing"),
        ("record off", "no cassette any more"),
        (
            CASSETTE_VARIABLE,
            f"[MODE:]PATH in the environment ({', '.join(MODES)}); with a MODE it wins",
        ),
    ),
    "replay": (
        ("replay", "what goes through which cassette now"),
        ("replay PATH", "play what is recorded there, without model, key and network; what is not there is an error"),
        ("replay off", "no cassette any more"),
    ),
}
COMMANDS: dict[str, Command] = {
    "record": Command(
        "[PATH [--auto]|off]",
        "record replies, answers and results into a cassette",
        2,
        _record,
        ("cassette|=off|=--auto", "=--auto"),
        more=_MORE["record"],
    ),
    "replay": Command(
        "[PATH|off]",
        "play a cassette, without model, key and network",
        1,
        _replay,
        ("cassette|=off",),
        more=_MORE["replay"],
    ),
}
