"""The part of a cassette that stands between calls and their tools: answers of people, and results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..protocol.codec import encode, jsonable
from ..protocol.errors import CodecError
from ..protocol.sessions import ApprovalDecision, ApprovalRecord
from ..protocol.tools import ToolSchema
from ..runtime.execution import Failure, Outcome
from ..runtime.interception import Intercepted, Played, PlayedAnswer
from ..runtime.tools import ToolExecutionResult
from .cassette_calls import decision_of, outcome_entry, result_of, who
from .cassette_desk import Desks
from .cassette_key import digest
from .cassette_reel import Reel
from .cassette_tape import Item
from .cassette_text import clean_json, data_without_credentials, without_credentials
from .cassette_wish import CassetteMode


class CallPort:
    """See ``Interceptor``. Calls are told apart by the reply that asked for them, and their place in there."""

    def __init__(self, reel: Reel) -> None:
        self._reel = reel
        self._desks = Desks()
        self._origins: dict[str, str] = {}  # by the ids of calls

    @property
    def mode(self) -> CassetteMode:
        """What it does: off, record, replay or auto."""
        return self._reel.mode

    @property
    def plays(self) -> bool:
        """True when recorded entries are played."""
        return self.mode in ("replay", "auto")

    @property
    def path(self) -> str:
        """The path of the file, as it was given."""
        return self._reel.file.shown

    def keeps(self, schema: ToolSchema) -> bool:
        """See ``Interceptor``: tools that ask, and those that are not deterministic."""
        return schema.permission == "ask" or not schema.deterministic

    def asks(self, call: Intercepted, asks: bool) -> bool:
        """Whether there is a question about this call: as when it was recorded, whatever the rules say here."""
        with self._reel.guard:
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
            decision = decision_of(item.entry, self._desks.of(call.workspace).places)
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
        places = self._desks.of(call.workspace).places
        decision = clean_json(encode(record.decision), places, self._desks.masker)
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
                played = result_of(item.entry, self._desks.of(call.workspace).places)
            except CodecError as error:
                return Failure(f"{self.path} is damaged ({error}); record again")
            item.played = True
            return played

    @property
    def left(self) -> frozenset[str]:
        """See ``Interceptor``."""
        return self._reel.tape.left

    def executed(self, call: Intercepted, outcome: Outcome, left: str) -> Outcome:
        """Record an outcome, without credentials; so does everybody else get it."""
        if isinstance(outcome, Failure):
            outcome = replace(outcome, text=without_credentials(outcome.text))
        elif isinstance(outcome, ToolExecutionResult):
            content, data = without_credentials(outcome.content), data_without_credentials(outcome.data)
            outcome = replace(outcome, content=content, data=data)
        else:
            return outcome  # stopped: nobody knows what it would have said
        if self.mode != "replay":
            entry = outcome_entry(outcome, self._desks.of(call.workspace).places, self._desks.masker)
            self._write_call("result", call, **entry, **({"left": left} if left else {}))
        return outcome

    def _write_call(self, kind: str, call: Intercepted, **fields: Any) -> None:
        places = self._desks.of(call.workspace).places
        arguments = clean_json(jsonable(call.arguments), places, self._desks.masker)
        origin = self._origins.get(call.call.id)
        entry = {"kind": kind, "key": self._key(call), **({"origin": origin} if origin else {})}
        self._reel.write({**entry, "tool": call.schema.name, "arguments": arguments, **fields}, "")

    def _next(self, kind: str, call: Intercepted) -> Item | None:
        if not self.plays:
            return None
        return self._reel.tape.next(kind, self._key(call), self._origins.get(call.call.id, ""))

    def _key(self, call: Intercepted) -> str:
        return digest([call.schema.name, self._desks.of(call.workspace).canonical.arguments(call.arguments)])
