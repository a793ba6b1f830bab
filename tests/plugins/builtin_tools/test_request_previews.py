"""What a person is shown of a request, and for what nobody is asked at all."""

from __future__ import annotations

import base64
import json

import pytest
from fetching import Fetcher
from stage import Stage, results
from web_server import Web, page

from kestrel_nb.plugins.builtin_tools.image_describe import ImageDescribe
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.plugins.core_tools.web import WebFetch
from kestrel_nb.protocol.sessions import ApprovalRequest
from kestrel_nb.runtime.models import ModelRegistry
from kestrel_nb.runtime.tools import Tool
from kestrel_nb.testing import Reply, ScriptedModel

SECRETS = [
    *("Authorization", "Cookie", "X-Api-Key", "Private-Token", "X-Pass", "X-Pwd", "X-CSRF-Thing", "X-XSRF", "X-OTP"),
    *("X-Client-Secret", "X-Auth", "Api_Key", "X-Amz-Security-Thing-Session", "X-Hub-Signature", "X-Passphrase"),
]
HARMLESS = ["Accept", "X-Compass", "X-Request-Id", "If-None-Match", "X-Option"]


async def test_values_that_may_be_secrets_are_hidden_and_sent() -> None:
    async with Web({"pub.test/": page()}) as web:
        fetch = Fetcher(web)
        await fetch(url="http://pub.test/", headers={name: f"value-of-{name}" for name in [*SECRETS, *HARMLESS]})
        shown = fetch.asked[0].preview.headers  # type: ignore[union-attr]
        sent = web.seen[0].headers
    assert {name: shown[name.lower()] for name in SECRETS} == dict.fromkeys(SECRETS, "(hidden)")
    assert {name: shown[name.lower()] for name in HARMLESS} == {name: f"value-of-{name}" for name in HARMLESS}
    assert all(sent[name.lower()] == f"value-of-{name}" for name in [*SECRETS, *HARMLESS])


async def asked_about(tool: Tool, url: str) -> tuple[list[ApprovalRequest], str]:
    """The questions that one call leads to, each said yes to, and its result."""
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest, signal: object) -> bool:
        asked.append(request)
        return True

    stage = Stage(
        ScriptedModel([Reply(tool_calls=[(tool.schema.name, {"url": url})]), "done"]), [tool], approve=approve
    )
    assert (await stage.ask()).status == "completed"
    stage.check()
    return asked, results(stage.session.messages)[0]


NO_ADDRESS = ["ftp://pub.test/", "http://u@pub.test/", "http://pub.test:22/", "pub.test", "http://[::1"]
REFUSED = ["http://127.0.0.1/", "http://[::ffff:10.0.0.1]/", "http://0x7f.1/", "http://169.254.169.254/"]


@pytest.mark.parametrize("url", [*NO_ADDRESS, *REFUSED])
async def test_web_fetch_asks_nobody_about_what_it_can_not_fetch(url: str) -> None:
    async with Web() as web:
        asked, result = await asked_about(WebFetch(CoreSettings(), web.network()), url)
        assert asked == []
        assert "can't be used" in result or "refused" in result
        assert web.lookups == web.dialled == []


def seeing() -> ModelRegistry:
    models = ModelRegistry()
    models.register(ScriptedModel(["a dot"], id="eye"))
    return models


@pytest.mark.parametrize("url", [*NO_ADDRESS, *REFUSED, "data:image/png,x"])
async def test_image_describe_answers_what_it_can_not_get_with_an_error_object(url: str) -> None:
    async with Web() as web:
        asked, result = await asked_about(ImageDescribe(seeing(), web.network()), url)
        assert json.loads(result)["error"] is True
        assert [request.preview.kind for request in asked] == (["text"] if url in REFUSED else [])  # type: ignore[union-attr]
        assert web.lookups == web.dialled == []


async def test_image_describe_with_a_data_uri_asks_nobody_however_it_is_written() -> None:
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(30)).decode()
    async with Web() as web:
        asked, result = await asked_about(ImageDescribe(seeing(), web.network()), f"\n DATA:image/png;base64,{image}\n")
    assert (asked, json.loads(result)["description"]) == ([], "a dot")
