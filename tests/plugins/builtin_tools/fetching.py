"""Calling http-fetch through the real loop: with the question, its preview, and the approval."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stage import Stage
from web_server import Web

from kestrel_nb.plugins.builtin_tools.config import HttpFetchConfig
from kestrel_nb.plugins.builtin_tools.http_fetch import HttpFetch
from kestrel_nb.protocol.sessions import ApprovalRequest
from kestrel_nb.testing import Reply, ScriptedModel


class Fetcher:
    """One session with http-fetch on a Web. ``asked`` holds the questions."""

    def __init__(self, web: Web, **config: Any) -> None:
        settings = HttpFetchConfig(**config)
        self.tool = HttpFetch(settings, web.network(allow_private=settings.allow_private_network))
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, **arguments: Any) -> Any:
        """The data of one call, which is checked as every run is."""
        return (await self.all([arguments]))[0]

    async def all(self, arguments: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The data of several calls of one turn, in order."""
        calls = [("http-fetch", dict(args)) for args in arguments]
        stage = Stage(ScriptedModel([Reply(tool_calls=calls), "done"]), [self.tool], approve=self._approve)
        assert (await stage.ask()).status == "completed"
        stage.check()
        ended = {event.call_id: event for event in stage.of("tool.executed")}
        return [_checked(ended[call.id]) for message in stage.session.messages for call in message.tool_calls]

    def _approve(self, request: ApprovalRequest, signal: Any) -> bool:
        self.asked.append(request)
        return True


def _checked(event: Any) -> Any:
    assert event.is_error == (event.data.get("error") is True)
    json.dumps(event.data, allow_nan=False, ensure_ascii=False).encode()
    if len(event.content) < 50_000:
        assert json.loads(event.content) == event.data
    return event.data


def is_failure(data: Any) -> bool:
    """Whether ``data`` is an error object, and a usable one: a line for people."""
    if data.get("error") is not True:
        return False
    assert set(data) == {"error", "message"}
    assert data["message"].isprintable()
    assert 10 < len(data["message"]) < 500
    assert "Traceback" not in data["message"]
    return True
