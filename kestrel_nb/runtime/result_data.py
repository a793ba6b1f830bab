"""The structured data of a result: made JSON without holding up the event loop, and kept in a file when it is large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..protocol.errors import CancelledByUser
from ..protocol.messages import ToolCallPart
from .call_data import JsonData, is_large, json_data
from .call_host import CallHost, CallSettings
from .execution import in_daemon_thread
from .signals import CancelSignal, until_cancelled

Warn = Callable[[str, str], None]


@dataclass(kw_only=True, slots=True)
class ResultData:
    """Makes the data of one run's results. ``warn`` is told the code and the text of what has to be left out."""

    settings: CallSettings
    host: CallHost
    signal: CancelSignal
    warn: Warn

    async def for_clients(self, call: ToolCallPart, value: Any) -> tuple[Any, str]:
        """The data for clients, and a line for the model when it went to a file."""
        if value is None:
            return None, ""
        try:
            data = await self.json(value)
        except CancelledByUser:
            text = f"the data of {call.name} was left out: the run was stopped before it was ready"
            self.warn("data_dropped", text)
            return None, ""
        except Exception as error:  # an object of the tool's own may raise anything when it is looked at
            text = f"the data of {call.name} is no JSON ({type(error).__name__}) and was left out"
            self.warn("data_dropped", text)
            return None, ""
        if not data.too_large:
            return data.value, ""
        kept = await self.host.keep_data(f"{call.name}-{call.id}", data.text)
        where = f"kept in {kept}" if kept else "not kept"
        notice = f"the data of {call.name} is too large to show ({len(data.text):,} characters); it was {where}"
        self.warn("data_too_large", notice)
        return {"truncated": True, "characters": len(data.text), "file": kept}, f"[{notice}]"

    async def json(self, value: Any) -> JsonData:
        """``value`` as JSON without keys; large data from a thread, so that the loop goes on.

        Raises CancelledByUser as soon as the run is stopped, and whatever an object of the tool's own raises.
        """
        if not is_large(value):
            return self._json(value)
        data: JsonData = await until_cancelled(in_daemon_thread(self._json, value), self.signal)
        return data

    def _json(self, value: Any) -> JsonData:
        plain = self.settings.to_data(value) if self.settings.to_data else value
        return json_data(self.settings.masker.mask_json(plain))
