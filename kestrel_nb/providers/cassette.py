"""A cassette: what models said, what people answered and what tools gave, recorded to be played again.

``replay`` never reaches a model or the network: what is not recorded is an error that names the first difference.
``record`` asks the model each time and begins the file anew. ``auto`` plays what is there and records the rest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..protocol.codec import encode, jsonable
from ..protocol.errors import CodecError, KestrelError, ModelRequestError, UsageError
from ..protocol.sessions import ApprovalDecision, ApprovalRecord, ModelInfo
from ..protocol.tools import ToolSchema
from ..runtime.execution import Failure, Outcome
from ..runtime.interception import Intercepted, Played, PlayedAnswer, Schemas
from ..runtime.models import CompletionRequest, CompletionResponse, LanguageModel, TokenDelta
from ..runtime.secrets import LiveMasker
from ..runtime.tools import ToolExecutionResult
from .cassette_calls import decision_of, outcome_entry, result_of, who
from .cassette_file import VERSION, CassetteFile, Entry
from .cassette_key import Asked, Canonical, digest
from .cassette_model import RecordedModel, info_or_stand_in
from .cassette_reply import deltas_of, reply_entry, response_of
from .cassette_tape import Item, Tape, tools_id
from .cassette_text import Places, clean_json, data_without_credentials, without_credentials
from .cassette_wish import MODES, CassetteMode


@dataclass(frozen=True, slots=True)
class _Desk:
    """What belongs to one workspace: its folders, and the requests of its sessions."""

    places: Places
    canonical: Canonical


class Cassette:
    """A cassette at ``path``; ``mode`` is ``record``, ``replay``, ``auto`` or ``off``.

    Give it to ``Kestrel(cassette=...)``. Entries are played once each, in the order of recording: what is asked more
    often than it was recorded is a miss. ``record`` replaces what the file holds with its first entry, and keeps the
    earlier file as PATH.bak. Raises UsageError for a mode or a path that can't be one.
    """

    def __init__(self, path: str | os.PathLike[str], mode: CassetteMode = "auto") -> None:
        if mode not in MODES:
            raise UsageError(f'the mode of a cassette is one of {", ".join(MODES)}, not "{mode}"')
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise UsageError('a cassette needs the path of its file: Cassette("notebook.jsonl")')
        self.mode: CassetteMode = mode
        self._file = CassetteFile(str(os.fspath(path)))
        self._masker = LiveMasker()
        self._tape = Tape()
        self._is_open = False
        self._desks: dict[str, _Desk] = {}
        self._origins: dict[str, str] = {}  # call id -> the reply that asked for it, and its place in there
        self._begun = False
        self._why_not = ""
        self._guard = threading.RLock()  # a tool may run a session in a thread of its own
        self.note = ""

    # ---- the file ---------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The path of the file, as it was given."""
        return self._file.shown

    @property
    def full_path(self) -> str:
        """The same as an absolute path."""
        return self._file.path

    @property
    def entries(self) -> int:
        """How many replies, answers and results are there."""
        return len(self._tape)

    @property
    def unused(self) -> tuple[str, ...]:
        """What was not played and not recorded just now, a line each; also once the cassette is closed."""
        return self._tape.unused if self.plays else ()

    def open(self) -> None:
        """Read what is there and get ready to write; once. ``note`` then says what had to be left out.

        Raises UsageError when there is nothing to play, the file is no cassette, or it can't be written. Nothing is
        written before the first entry.
        """
        if self._is_open or self.mode == "off":
            return
        if self.mode != "replay":
            self._open_for_writing()
        try:
            entries, self.note = self._file.read()
            if self.mode == "replay" and len(entries) < 2:
                raise UsageError(f"{self.path} is empty: nothing is recorded in it; %kestrel record {self.path}")
            self._begun = bool(entries) and (self._begun or self.mode == "auto")
            self._tape = Tape(entries[1:] if self._begun or self.mode == "replay" else ())
        except CodecError as error:
            self._file.close()
            raise UsageError(f"{self.path} is damaged ({error}); record again") from None
        except BaseException:
            self._file.close()
            raise
        self._is_open = True

    def _open_for_writing(self) -> None:
        try:
            self._file.open_for_writing()
        except UsageError as error:
            # In auto a file that can only be read, or that another notebook records into, may hold all that is needed.
            if self.mode != "auto" or not self._file.has_entries:
                raise
            self._why_not = str(error)

    def close(self) -> None:
        """Let go of the file. Opened again, a recording goes on, and playing begins from the first entry."""
        self.release()
        self._is_open = False
        self._origins.clear()

    def release(self) -> None:
        """Let others write to the file. Opened again, it goes on in each mode."""
        self._file.close()
        self._is_open = self._is_open and self.mode == "replay"

    def begin_anew(self) -> None:
        """Let a recording begin with its next entry, as in a kernel that has just started."""
        if self.mode == "record":
            self._begun, self._tape = False, Tape()

    def _write(self, entry: Entry, model: str) -> None:
        """Append ``entry``. Raises StoreError, UsageError when the file can only be read."""
        with self._guard:
            if not self._file.writable:
                raise UsageError(self._why_not or f"{self.path} is not open for recording")
            if not self._begun:
                self._file.begin_anew()
                header = {"kestrel": "cassette", "version": VERSION, "madeBy": _made_by()}
                self._file.write({**header, "model": model} if model else header)
                self._begun = True
            self._file.write(entry)
            self._open_tape.add(entry, played=True)

    @property
    def _open_tape(self) -> Tape:
        self.open()
        return self._tape

    # ---- models -----------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """False in the mode off, in which everything goes its usual way."""
        return self.mode != "off"

    @property
    def plays(self) -> bool:
        """True when recorded entries are played."""
        return self.mode in ("replay", "auto")

    def info(self, id: str) -> ModelInfo | None:
        """What is recorded about the model ``id``, None when nothing is. Raises what ``open`` raises."""
        return self._open_tape.info(id) if self.plays else None

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

    def _desk(self, workspace: str) -> _Desk:
        desk = self._desks.get(workspace)
        if desk is None:
            places = Places(workspace)
            desk = self._desks[workspace] = _Desk(places, Canonical(places, self._masker))
        return desk

    def asked(self, request: CompletionRequest, workspace: str) -> Asked:
        """The canonical form of a request."""
        return self._desk(workspace).canonical.of(request)

    def take_reply(self, asked: Asked, workspace: str) -> tuple[CompletionResponse, list[TokenDelta]] | None:
        """The next recorded reply and its pieces, None when none is left. Raises ModelRequestError."""
        with self._guard:
            places = self._desk(workspace).places
            item = self._open_tape.next("reply", asked.key) if self.plays else None
            if item is None:
                return None
            try:
                response, deltas = response_of(item.entry, places), deltas_of(item.entry, places)
            except CodecError as error:
                raise self._damaged(error) from None
            item.played = True
            self._note_origins(asked, response)
            return response, deltas

    def _note_origins(self, asked: Asked, response: CompletionResponse) -> None:
        for place, call in enumerate(response.tool_calls):
            self._origins[call.id] = f"{asked.key[:16]}.{place}"

    def keep_reply(
        self, asked: Asked, info: ModelInfo, response: CompletionResponse, deltas: Sequence[TokenDelta], workspace: str
    ) -> None:
        """Record a reply that is complete. Raises StoreError when that can't be written."""
        tape = self._open_tape
        known = replace(info, id=asked.model)
        if tape.models.get(asked.model) != known:  # a listing or a price list may have told more meanwhile
            self._write({"kind": "model", **encode(known)}, asked.model)
        if (offered := tools_id(asked.tools)) not in tape.tools:
            self._write({"kind": "tools", "id": offered, "tools": dict(asked.tools)}, asked.model)
        reply = reply_entry(response, deltas, self._desk(workspace).places, self._masker)
        request = tape.request_entry(asked)
        request["messages"] = [
            [role, said, self._masker.mask(text), *name] for role, said, text, *name in request["messages"]
        ]
        self._write({"kind": "reply", **request, **reply}, asked.model)
        self._note_origins(asked, response)

    def miss(self, asked: Asked) -> ModelRequestError:
        """The error for a request that is not recorded; it names the first difference from the nearest one that is."""
        why = self._open_tape.why_not(asked)
        return ModelRequestError(
            f"No recording in {self.path} fits this request: {why}. "
            f"To record it: %kestrel record {self.path}, then run the cells again.",
            code="cassette_miss",
        )

    def _damaged(self, error: CodecError) -> ModelRequestError:
        return ModelRequestError(f"{self.path} is damaged ({error}). Record again.", code="cassette_damaged")

    # ---- calls ------------------------------------------------------------------------------------------------

    def keeps(self, schema: ToolSchema) -> bool:
        """See ``Interceptor``: tools that ask, and those that are not deterministic."""
        return schema.permission == "ask" or not schema.deterministic

    def asks(self, call: Intercepted, asks: bool) -> bool:
        """Whether there is a question about this call: as when it was recorded, whatever the rules say here."""
        if self._next_answer(call) is not None:
            return True
        return asks and not (self.keeps(call.schema) and self._next("result", call) is not None)

    def answer(self, call: Intercepted) -> PlayedAnswer | None:
        """The recorded answer to the question about exactly this call. What it lets run has a recorded result too."""
        with self._guard:
            found = self._next_answer(call)
            if found is None:
                return None
            item, decision = found
            item.played = True
            return PlayedAnswer(decision=decision, recorded_by=who(item.entry))

    def _next_answer(self, call: Intercepted) -> tuple[Item, ApprovalDecision] | None:
        item = self._next("answer", call)
        if item is None:
            return None
        try:
            decision = decision_of(item.entry, self._desk(call.workspace).places)
        except CodecError:
            return None
        plain = self.keeps(call.schema) and not call.schema.in_kernel
        if decision.approved and plain:
            arguments = call.arguments if decision.arguments is None else decision.arguments
            if self._next("result", replace(call, arguments=arguments)) is None:
                return None
        return item, decision

    def answered(self, call: Intercepted, record: ApprovalRecord) -> None:
        """Record an answer. What ended the run with it is none."""
        ended = record.answered_by == "cancel" or (record.answered_by == "policy" and record.decision.reason == "fail")
        if self.mode == "replay" or ended or record.answered_by == "cassette":
            return
        places = self._desk(call.workspace).places
        decision = clean_json(encode(record.decision), places, self._masker)
        self._write_call("answer", call, decision=decision, by=record.answered_by)

    def result(self, call: Intercepted, *, asked: bool) -> Played | None:
        """The recorded result. Where only what is recorded is played, a call that nobody approved fails without one."""
        with self._guard:
            item = self._next("result", call)
            if item is None:
                if self.mode != "replay" or asked:
                    return None
                return Failure(
                    f"no result of exactly this call is recorded in {self.path}, so it was not run; "
                    f"to record it: %kestrel record {self.path}"
                )
            try:
                played = result_of(item.entry, self._desk(call.workspace).places)
            except CodecError as error:
                return Failure(f"{self.path} is damaged ({error}); record again")
            item.played = True
            return played

    @property
    def left(self) -> frozenset[str]:
        """See ``Interceptor``."""
        return self._open_tape.left

    def executed(self, call: Intercepted, outcome: Outcome, left: str = "") -> Outcome:
        """Record an outcome, without credentials; so does everybody else get it."""
        if isinstance(outcome, Failure):
            outcome = replace(outcome, text=without_credentials(outcome.text))
        elif isinstance(outcome, ToolExecutionResult):
            content, data = without_credentials(outcome.content), data_without_credentials(outcome.data)
            outcome = replace(outcome, content=content, data=data)
        else:
            return outcome  # stopped: nobody knows what it would have said
        if self.mode != "replay":
            entry = outcome_entry(outcome, self._desk(call.workspace).places, self._masker)
            self._write_call("result", call, **entry, **({"left": left} if left else {}))
        return outcome

    def _write_call(self, kind: str, call: Intercepted, **fields: Any) -> None:
        places = self._desk(call.workspace).places
        arguments = clean_json(jsonable(call.arguments), places, self._masker)
        origin = self._origins.get(call.call.id)
        entry = {"kind": kind, "key": self._key(call), **({"origin": origin} if origin else {})}
        self._write({**entry, "tool": call.schema.name, "arguments": arguments, **fields}, "")

    def _next(self, kind: str, call: Intercepted) -> Item | None:
        if not self.plays:
            return None
        return self._open_tape.next(kind, self._key(call), self._origins.get(call.call.id, ""))

    def _key(self, call: Intercepted) -> str:
        return digest([call.schema.name, self._desk(call.workspace).canonical.arguments(call.arguments)])

    def __repr__(self) -> str:
        return f"Cassette({self.path!r}, mode={self.mode!r})"


def _made_by() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"kestrel-nb {version('kestrel-nb')}"
    except PackageNotFoundError:
        return "kestrel-nb"
