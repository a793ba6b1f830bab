"""A cassette: what models said, what people answered and what tools gave, recorded to be played again.

``replay`` never reaches a model or the network: what is not recorded is an error that names the first difference.
``record`` asks the model each time and begins the file anew. ``auto`` plays what is there and records the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from ..protocol.codec import encode
from ..protocol.errors import CodecError, KestrelError, ModelRequestError, UsageError
from ..protocol.sessions import ModelInfo
from ..runtime.interception import Schemas
from ..runtime.models import CompletionRequest, CompletionResponse, LanguageModel
from .cassette_answer import Answer, answer_entry, answer_of
from .cassette_failure import is_same
from .cassette_file import Entry
from .cassette_key import Asked
from .cassette_model import RecordedModel, info_or_stand_in
from .cassette_port import CallPort
from .cassette_reel import Reel
from .cassette_tape import tools_id
from .cassette_wish import MODES, CassetteMode


class Cassette(CallPort):
    """A cassette at ``path``; ``mode`` is ``record``, ``replay``, ``auto`` or ``off``.

    Give it to ``Kestrel(cassette=...)``. Entries are played once each, in the order of recording: what is asked more
    often than it was recorded is a miss. ``record`` replaces what the file holds with its first entry, and keeps the
    earlier file as PATH.bak if it holds replies. Raises UsageError for a mode or a path that can't be one.
    """

    def __init__(self, path: str | os.PathLike[str], mode: CassetteMode = "auto") -> None:
        if mode not in MODES:
            raise UsageError(f'the mode of a cassette is one of {", ".join(MODES)}, not "{mode}"')
        name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
        if not name or not isinstance(name, str):
            raise UsageError('a cassette needs the path of its file: Cassette("notebook.jsonl")')
        super().__init__(Reel(name, mode))

    # ---- the file ---------------------------------------------------------------------------------------------

    @property
    def full_path(self) -> str:
        """The same as an absolute path."""
        return self._reel.file.path

    @property
    def note(self) -> str:
        """What had to be left out when the file was read, "" when nothing was."""
        return self._reel.note

    @property
    def entries(self) -> int:
        """How many replies, answers and results are there."""
        return len(self._reel.latest)

    @property
    def unused(self) -> tuple[str, ...]:
        """What was not played and not recorded just now, a line each; also once the cassette is closed."""
        return self._reel.latest.unused if self.plays else ()

    def open(self) -> None:
        """Read what is there and get ready to write; once. ``note`` then says what had to be left out.

        Raises UsageError when there is nothing to play, the file is no cassette, or it can't be written. Nothing is
        written before the first entry.
        """
        self._reel.open()

    def close(self) -> None:
        """Let go of the file. Opened again, a recording goes on, and playing begins from the first entry."""
        self._reel.close()
        self._origins.clear()

    def release(self) -> None:
        """Let others write to the file. Opened again, it goes on in each mode."""
        self._reel.release()

    def begin_anew(self) -> None:
        """Let a recording begin with its next entry, as in a kernel that has just started."""
        self._reel.begin_anew()

    # ---- models -----------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """False in the mode off, in which everything goes its usual way."""
        return self.mode != "off"

    def info(self, id: str) -> ModelInfo | None:
        """What is recorded about the model ``id``, None when nothing is. Raises what ``open`` raises."""
        with self._reel.guard:
            return self._reel.tape.info(id) if self.plays else None

    def resolve(self, id: str) -> LanguageModel | None:
        """A stand-in for a model that is recorded here and perhaps nowhere else: a resolver of models."""
        info = self.info(id) if self.active else None
        return RecordedModel(self, info, None, os.getcwd()) if info is not None else None

    def model(
        self, id: str, find: Callable[[], LanguageModel], workspace: str, depends: Schemas = tuple
    ) -> LanguageModel:
        """The model ``id`` with this cassette before it. Raises what ``find`` raises where it is needed."""
        info = self.info(id)
        if self.mode == "replay":
            return RecordedModel(self, info or info_or_stand_in(id, find), None, workspace, depends)
        try:
            inner = find()
        except KestrelError:
            if info is None:
                raise
            return RecordedModel(self, info, None, workspace, depends)
        if isinstance(inner, RecordedModel):  # that is all there is of it here
            return RecordedModel(self, inner.info, None, workspace, depends)
        return RecordedModel(self, info or inner.info, inner, workspace, depends)

    def asked(self, request: CompletionRequest, workspace: str) -> Asked:
        """The canonical form of a request."""
        with self._reel.guard:  # which remembers the messages of the request before it
            return self._desks.of(workspace).canonical.of(request)

    def check_records(self) -> None:
        """Raise UsageError when nothing can be recorded here: no model is asked for nothing."""
        self._reel.check_writable()

    def take(self, asked: Asked, workspace: str) -> Answer | None:
        """How the request ended the next time it was recorded; None when that is not recorded.

        In auto a request that only failed is made again. Raises ModelRequestError for a damaged entry.
        """
        with self._reel.guard:
            places, tape = self._desks.of(workspace).places, self._reel.tape
            item = tape.next("reply", asked.key) if self.plays else None
            if item is None or (self.mode == "auto" and tape.failures_left(asked.key)):
                return None
            try:
                answer = answer_of(item.entry, places)
            except CodecError as error:
                raise self._damaged(error) from None
            item.played = True
            self._note_origins(asked, answer)
            return answer

    def _note_origins(self, asked: Asked, answer: Answer) -> None:
        if isinstance(answer.outcome, CompletionResponse):
            for place, call in enumerate(answer.outcome.tool_calls):
                self._origins[call.id] = f"{asked.key[:16]}.{place}"

    def keep(self, asked: Asked, info: ModelInfo, answer: Answer, workspace: str) -> None:
        """Record how a request ended. Raises StoreError when that can't be written."""
        with self._reel.guard:
            tape = self._reel.tape
            entry = answer_entry(answer, self._desks.of(workspace).places, self._desks.masker)
            if failures := tape.failures_left(asked.key) if self.mode == "auto" else 0:
                item = tape.next("reply", asked.key)
                if item is not None and is_same(item.entry, entry):
                    item.played = True
                    return
                entry["instead"] = failures
            self._write_asked(asked, info, entry)
            self._note_origins(asked, answer)

    def _write_asked(self, asked: Asked, info: ModelInfo, entry: Entry) -> None:
        tape, known = self._reel.tape, replace(info, id=asked.model)
        if tape.models.get(asked.model) != known:  # a listing or a price list may have told more meanwhile
            self._reel.write({"kind": "model", **encode(known)}, asked.model)
        if (offered := tools_id(asked.tools)) not in tape.tools:
            self._reel.write({"kind": "tools", "id": offered, "tools": dict(asked.tools)}, asked.model)
        request = tape.request_entry(asked)
        request["messages"] = [
            [role, said, self._desks.masker.mask(text), *name] for role, said, text, *name in request["messages"]
        ]
        self._reel.write({"kind": entry["kind"], **request, **entry}, asked.model)

    def miss(self, asked: Asked) -> ModelRequestError:
        """The error for a request that is not recorded; it names the first difference from the nearest one that is."""
        why = self._reel.tape.why_not(asked)
        return ModelRequestError(
            f"No recording in {self.path} fits this request: {why}. "
            f"To record it: %kestrel record {self.path}, then run the cells again.",
            code="cassette_miss",
        )

    def _damaged(self, error: CodecError) -> ModelRequestError:
        return ModelRequestError(f"{self.path} is damaged ({error}). Record again.", code="cassette_damaged")

    def __repr__(self) -> str:
        return f"Cassette({self.path!r}, mode={self.mode!r})"
