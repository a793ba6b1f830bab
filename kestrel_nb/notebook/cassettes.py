"""Which cassette a cell goes through: by its option, by ``%kestrel record`` or ``replay``, or by KESTREL_CASSETTE."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..protocol.errors import KestrelError, UsageError
from ..providers.cassette import Cassette
from ..providers.cassette_wish import CASSETTE_VARIABLE, CassetteMode, is_offline, wish
from .cell import CellOptions
from .words import model_label

if TYPE_CHECKING:
    from ..app import Kestrel
    from ..protocol.sessions import ModelInfo


class Cassettes:
    """The cassettes of one notebook. What names the same file in the same mode shares one object: so a recording that
    was ended goes on when it is named again, and begins anew only in another kernel."""

    def __init__(self) -> None:
        self._chosen: Cassette | None = None  # by a word, or by the environment
        self._known: dict[tuple[str, str], Cassette] = {}  # by path and mode
        self._resting: Cassette | None = None  # ended by a word
        self._ended = False  # by a word, so that the environment's default counts no more

    def attach(self, app: Kestrel) -> None:
        """Let ``app`` go through the chosen cassette, or the environment's, unless it has one of its own."""
        if app.cassette is None:
            self._chosen = self._chosen or self._from_environment()
            app.cassette = self._chosen

    def _from_environment(self) -> Cassette | None:
        try:
            said = wish()
        except UsageError:  # each cell says so
            return None
        if said.path is None or said.mode == "off" or (self._ended and said.mode is None):
            return None
        return Cassette(said.path, said.mode or "auto")

    def choose(self, app: Kestrel, mode: CassetteMode, path: str) -> Cassette:
        """Let everything in ``app`` go through the cassette at ``path``.

        One that was ended goes on. Any other begins anew: to be recorded, or to be played from the first entry. Raises
        UsageError, and nothing has changed then.
        """
        mode, path = wish().applied(mode, path)
        fresh, old = self._find(mode, path), app.cassette
        _must_rest(app)
        goes_on = fresh is self._resting
        for cassette in (*self._known.values(), *([old] if old is not None else [])):
            if (cassette is old or cassette.full_path == fresh.full_path) and not (goes_on and cassette is fresh):
                cassette.close()
        try:
            _open(fresh)
        except KestrelError:
            if old is not None and old is not fresh:
                old.open()
            raise
        if not goes_on:
            fresh.begin_anew()
        self._chosen, self._resting, app.cassette = fresh, None, fresh
        return fresh

    def end(self, app: Kestrel) -> None:
        """Let everything in ``app`` go its usual way, unless the environment names mode and path. Raises UsageError."""
        said = wish()
        if said.mode is not None and said.path is not None:
            return
        _must_rest(app)
        if app.cassette is not None:
            app.cassette.release()
        self._resting = app.cassette or self._resting
        self._chosen = app.cassette = None
        self._ended = True

    def are_used(self, app: Kestrel, options: CellOptions | None = None) -> bool:
        """Whether a cell with these options goes through a cassette."""
        named = options is not None and bool(options.record or options.replay) and wish().mode != "off"
        return named or (app.cassette is not None and app.cassette.active)

    def of_cell(self, options: CellOptions, app: Kestrel) -> Cassette | None:
        """The cassette that a cell goes through, open; None for none. Raises UsageError."""
        if options.record and options.replay:
            raise UsageError("a cell is recorded or replayed; give --record or --replay, not both")
        said = wish()
        self.attach(app)  # the variable may have been set in a cell
        cassette = app.cassette
        if path := options.record or options.replay:
            cassette = self._named(*said.applied("record" if options.record else "replay", path), app)
        if cassette is None or not cassette.active:
            return None
        _open(cassette)
        return cassette

    def _named(self, mode: CassetteMode, path: str, app: Kestrel) -> Cassette:
        current, fresh = app.cassette, self._find(mode, path)
        same = current is not None and (current.full_path, current.mode) == (fresh.full_path, mode)
        return current if same and current is not None else fresh

    def _find(self, mode: CassetteMode, path: str) -> Cassette:
        fresh = Cassette(path, mode)
        return self._known.setdefault((fresh.full_path, mode), fresh)

    def close(self) -> None:
        """Let go of every file."""
        for cassette in self._known.values():
            cassette.close()
        self._known.clear()


def _open(cassette: Cassette) -> None:
    """Open it. Raises UsageError that tells of a mode which the notebook's words did not say."""
    try:
        cassette.open()
    except UsageError as error:
        if wish().mode is None:
            raise
        raise UsageError(f'{error} ({CASSETTE_VARIABLE} is "{os.environ[CASSETTE_VARIABLE]}")') from None


def _must_rest(app: Kestrel) -> None:
    if any(summary.is_running for summary in app.sessions.list()):
        raise UsageError("a run is going; wait for it or stop it with %kestrel cancel, then choose the cassette")


def check_model(app: Kestrel, id: str | None) -> None:
    """Raise UsageError when KESTREL_CASSETTE forbids a cell without a cassette to ask the model ``id``."""
    model = app.models.get(id or None)
    if wish().mode == "replay" and not is_offline(model):
        raise UsageError(
            f'{CASSETTE_VARIABLE} is "{os.environ[CASSETTE_VARIABLE]}" and no cassette is named for this cell, so '
            f"{model.info.id} is not asked; name one in a cell above, %kestrel record PATH, or set "
            f"{CASSETTE_VARIABLE}=replay:PATH"
        )


def not_recorded(app: Kestrel, id: str | None) -> str:
    """What to tell of a cell without a cassette where KESTREL_CASSETTE wants to record; "" where nothing is missed."""
    if wish().mode not in ("record", "auto") or is_offline(app.models.get(id or None)):
        return ""
    said = f'{CASSETTE_VARIABLE} is "{os.environ[CASSETTE_VARIABLE]}", and no cassette is named for this cell'
    return f"Nothing of this is recorded: {said}. %kestrel record PATH names one."


def label_of(info: ModelInfo, cassette: Cassette | None) -> str:
    """The name of a model in the header. It is the same whether the cassette records or plays."""
    label = info.label or info.id
    return label if cassette is None else f"cassette of {model_label(label)}"


def info_of(app: Kestrel, id: str | None, cassette: Cassette | None) -> ModelInfo:
    """The model of a run. Raises ModelNotFoundError for one that is neither here nor recorded."""
    name = id or app.models.default_model or ""
    recorded = cassette.info(name) if cassette is not None else None
    return recorded or app.models.get(name or None).info
