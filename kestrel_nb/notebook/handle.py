"""What a ``%%kestrel`` cell leaves behind: the run, its text, its data as DataFrames, its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..protocol.errors import UsageError
from ..protocol.events import RunCompleted, RunFailed, RunStarted, SessionEvent, ToolExecuted
from ..protocol.messages import ChatMessage
from ..protocol.sessions import RunResult, Usage
from ..runtime.session import AgentSession

if TYPE_CHECKING:
    from ..frames import DataFrame


class Frames(Mapping["str | tuple[str, int]", "DataFrame"]):
    """Tool data as DataFrames: ``frames["grep"]`` is the last call's, ``frames["grep", 0]`` the first call's."""

    def __init__(self) -> None:
        self._data: dict[str, list[Any]] = {}
        self._made: dict[tuple[str, int], DataFrame] = {}

    def add(self, tool: str, data: Any) -> None:
        """Keep the data of one call."""
        self._data.setdefault(tool, []).append(data)

    def __getitem__(self, key: str | tuple[str, int]) -> DataFrame:
        tool, index = key if isinstance(key, tuple) and len(key) == 2 else (key, -1)
        if tool not in self._data:
            raise KeyError(f"no data of {tool!r} in this run; there is: {', '.join(sorted(self._data)) or 'none'}")
        if not isinstance(index, int):
            raise KeyError(f"the number of a call is a whole number, not {index!r}")
        calls = self._data[tool]
        index = index if index >= 0 else len(calls) + index
        if not 0 <= index < len(calls):
            raise KeyError(f"{tool} gave data {len(calls)} time(s), there is no number {index}")
        if (tool, index) not in self._made:
            from ..frames import to_frame

            self._made[tool, index] = to_frame(calls[index])
        return self._made[tool, index]

    def __iter__(self) -> Iterator[str | tuple[str, int]]:
        return iter(sorted(self._data))

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"<frames: {', '.join(sorted(self._data)) or 'none'}>"


class RunHandle:
    """One run of a cell. It goes on filling while the run does; ``status`` tells how it ended."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        self.run_id = ""
        self.request = ""  # the message as it was sent; "" when the run goes on with an earlier one
        self.status = "running"
        self.error: str | None = None
        self.frames = Frames()
        self.events: list[SessionEvent] = []
        self.result: RunResult | None = None
        self._record: dict[str, str] | None = None

    @property
    def text(self) -> str:
        """What the model answered at the end."""
        return self.result.text if self.result else ""

    @property
    def usage(self) -> Usage:
        """The tokens of the run."""
        return self.result.usage if self.result else Usage()

    @property
    def cost(self) -> float | None:
        """What the run cost, in US dollars; None where that is not known."""
        return self.result.cost if self.result else None

    @property
    def data(self) -> Mapping[str, list[Any]]:
        """The data of every tool, as the tools gave it: a list of calls by tool."""
        return self.frames._data

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The transcript of the session as it is now."""
        return self.session.messages

    @property
    def record(self) -> dict[str, str]:
        """The static record, by MIME type. Raises UsageError while the run goes on."""
        if self._record is None:
            raise UsageError("the run is still going; its record is made at the end")
        return self._record

    def collect(self, event: SessionEvent) -> None:
        """Take what an event of the run brings."""
        self.events.append(event)
        if isinstance(event, RunStarted):
            self.request = event.input
        elif isinstance(event, ToolExecuted) and event.data is not None:
            self.frames.add(event.tool, event.data)
        elif isinstance(event, RunCompleted):
            self.status = event.status
        elif isinstance(event, RunFailed):
            self.status, self.error = "failed", event.message

    def finish(self, record: dict[str, str], result: RunResult | None) -> None:
        """The run has ended."""
        self._record, self.result = record, result

    def __repr__(self) -> str:
        # No id, time or address: a repr stays the same when a notebook is run again.
        return f"<kestrel run: {self.status}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self._record or {"text/plain": repr(self)}
