"""A cassette: what models said, what people answered and what tools gave, recorded to be played again.

``replay`` never reaches a model or the network: what is not recorded is an error that names the first difference.
``record`` asks the model each time and begins the file anew. ``auto`` plays what is there and records the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..protocol.codec import encode, jsonable
from ..protocol.errors import CodecError, KestrelError, ModelRequestError, UsageError
from ..protocol.sessions import ApprovalDecision, ApprovalRecord, ModelInfo
from ..protocol.tools import ToolSchema
from ..runtime.execution import Failure, Outcome
from ..runtime.interception import Intercepted, Played, PlayedAnswer, Schemas
from ..runtime.models import CompletionRequest, CompletionResponse, LanguageModel
from ..runtime.secrets import LiveMasker
from ..runtime.tools import ToolExecutionResult
from .cassette_answer import Answer, answer_entry, answer_of
from .cassette_calls import decision_of, outcome_entry, result_of, who
from .cassette_failure import is_same
from .cassette_file import Entry
from .cassette_key import Asked, Canonical, digest
from .cassette_model import RecordedModel, info_or_stand_in
from .cassette_reel import Reel
from .cassette_tape import Item, tools_id
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
    earlier file as PATH.bak if it holds replies. Raises UsageError for a mode or a path that can't be one.
    """

    def __init__(self, path: str | os.PathLike[str], mode: CassetteMode = "auto") -> None:
        if mode not in MODES:
            raise UsageError(f'the mode of a cassette is one of {", ".join(MODES)}, not "{mode}"')
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise UsageError('a cassette needs the path of its file: Cassette("notebook.jsonl")')
        self.mode: CassetteMode = mode
        self._reel = Reel(str(os.fspath(path)), mode)
        self._masker = LiveMasker()
        self._desks: dict[str, _Desk] = {}
        self._origins: dict[str, str] = {}  # call id -> the reply that asked for it, and its place in there

    # ---- the file ---------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The path of the file, as it was given."""
        return self._reel.file.shown

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

    @property
    def plays(self) -> bool:
        """True when recorded entries are played."""
        return self.mode in ("replay", "auto")

    def info(self, id: str) -> ModelInfo | None:
        """What is recorded about the model ``id``, None when nothing is. Raises what ``open`` raises."""
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

    def _desk(self, workspace: str) -> _Desk:
        desk = self._desks.get(workspace)
        if desk is None:
            places = Places(workspace)
            desk = self._desks[workspace] = _Desk(places, Canonical(places, self._masker))
        return desk

    def asked(self, request: CompletionRequest, workspace: str) -> Asked:
        """The canonical form of a request."""
        return self._desk(workspace).canonical.of(request)

    def take(self, asked: Asked, workspace: str) -> Answer | None:
        """How the request ended the next time it was recorded; None when that is not recorded.

        In auto a request that only failed is made again. Raises ModelRequestError for a damaged entry.
        """
        with self._reel.guard:
            places, tape = self._desk(workspace).places, self._reel.tape
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
            entry = answer_entry(answer, self._desk(workspace).places, self._masker)
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
            [role, said, self._masker.mask(text), *name] for role, said, text, *name in request["messages"]
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
        with self._reel.guard:
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
        with self._reel.guard:
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
        return self._reel.tape.left

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
        self._reel.write({**entry, "tool": call.schema.name, "arguments": arguments, **fields}, "")

    def _next(self, kind: str, call: Intercepted) -> Item | None:
        if not self.plays:
            return None
        return self._reel.tape.next(kind, self._key(call), self._origins.get(call.call.id, ""))

    def _key(self, call: Intercepted) -> str:
        return digest([call.schema.name, self._desk(call.workspace).canonical.arguments(call.arguments)])

    def __repr__(self) -> str:
        return f"Cassette({self.path!r}, mode={self.mode!r})"
