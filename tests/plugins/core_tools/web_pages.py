"""Calling web_fetch on a site, and what the model and the data have of the page."""

from __future__ import annotations

from typing import Any

from site_server import Site
from stage import Stage

from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.plugins.core_tools.web import UNTRUSTED, WebFetch
from kestrel_nb.protocol.codec import dumps, parse_call
from kestrel_nb.protocol.messages import new_id
from kestrel_nb.runtime.tool_calls import CallOutcome
from kestrel_nb.testing import ScriptedModel


def stage_of(site: Site, **settings: Any) -> Stage:
    return Stage(ScriptedModel([]), [WebFetch(CoreSettings(**settings), site.network())])


async def fetch(site: Site, url: str, **args: Any) -> CallOutcome:
    """One call, counted as asked for by a person."""
    call = parse_call(new_id("call"), "web_fetch", dumps({"url": url, **args}))
    return await stage_of(site).session.use_tool(call)


def row_of(outcome: CallOutcome) -> dict[str, Any]:
    """The one row of the data."""
    (cells,) = outcome.data["rows"]
    return dict(zip(outcome.data["columns"], cells, strict=True))


def text_of(outcome: CallOutcome) -> str:
    """What the model reads behind the notice."""
    notice, _, text = outcome.content.partition("\n\n")
    assert notice.endswith(UNTRUSTED), outcome.content[:200]
    return text


async def page(html: str, **args: Any) -> str:
    """What the model reads of a page."""
    async with Site() as site:
        site.page("/", html, "text/html; charset=utf-8")
        outcome = await fetch(site, "http://example.com/", **args)
        assert outcome.state == "executed", outcome.content
        return row_of(outcome)["text"]
