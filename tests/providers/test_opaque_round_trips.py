"""What a provider wants back unchanged, through real runs: from its reply over the store into its next requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, data_event, streamed
from stage import FunctionTool, assert_valid
from written import body_of

from kestrel_nb.app import Kestrel
from kestrel_nb.providers import GeminiModel, OpenAIResponsesModel
from kestrel_nb.runtime.file_store import FileSessionStore

MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
DONE = {
    "openai-responses": {"type": "response.completed", "response": {"status": "completed", "output": [MESSAGE]}},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "Done."}]}, "finishReason": "STOP"}]},
}
FIRST = {"openai-responses": "responses-everything.sse", "gemini": "gemini-signatures.sse"}
OTHER = {"openai-responses": "gemini", "gemini": "openai-responses"}
OPAQUE = {
    "openai-responses": [
        b'{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"**Look first**"},'
        b'{"type":"summary_text","text":"The folder is small."}],'
        b'"encrypted_content":"gAAAAB-finished+/=\xc3\xa9","status":null}',
        b'"arguments":"{ \\"x\\" : 1 }"',
        b'"phase":"commentary"',
        b'"id":"fc_1"',
    ],
    "gemini": [
        b'{"text":"Signed thought.","thought":true,"thoughtSignature":"c2lnLXRob3VnaHQ="}',
        b'{"text":" closely.","thoughtSignature":"c2lnLXRleHQ="}',
        b'"args":{"x":1,"\xc3\xb6":"\xc3\xa9"}},"thoughtSignature":"c2lnLWNhbGw+/w=="}',
        b'{"text":"","thoughtSignature":"c2lnLWVtcHR5"}',
        b'{"functionResponse":{"id":"srv-1",',
    ],
}
SECRET = (b"gAAAAB", b"rs_1", b"c2ln", b"executableCode", b"Signed thought", b"Look first", b"fc_1")


def app_on(server: ModelServer, folder: Path) -> Kestrel:
    """An app whose models of both formats are on ``server``, with its sessions below ``folder``."""
    tool = FunctionTool("look", lambda args, context: "seen", parameters={"type": "object"})
    app = Kestrel(workspace=folder, tools=[tool], store=FileSessionStore(folder / "store"))
    app.models.register(OpenAIResponsesModel("gpt-x", base_url=server.url, api_key="k", id="openai-responses"))
    app.models.register(GeminiModel("gemini-x", base_url=server.url, api_key="k", id="gemini"))
    return app


@pytest.mark.parametrize("api", ["openai-responses", "gemini"])
async def test_it_goes_back_byte_for_byte_also_from_disk_and_to_no_one_else(api: str, tmp_path: Path) -> None:
    replies: list[Any] = [streamed(body_of(FIRST[api]))]
    replies += [streamed(data_event(DONE[name])) for name in (api, api, OTHER[api], api)]
    async with ModelServer(replies) as server:
        async with app_on(server, tmp_path) as app:
            session = app.sessions.create(model=api)
            assert (await session.start("go")).text == "Done."
            assert_valid(session.messages)
        async with app_on(server, tmp_path) as app:
            session = app.sessions.get(session.id)
            await session.start("and now?")
            session.set_model(OTHER[api])
            await session.start("you?")
            session.set_model(api)
            await session.start("and you again?")
        bodies = [request.body for request in server.requests]
    assert len(bodies) == 5
    for number in (1, 2, 4):
        for part in OPAQUE[api]:
            assert bodies[number].count(part) == 1, (number, part)
    assert not any(mark in bodies[3] for mark in SECRET)
    assert b"I look" in bodies[3]
    assert b"seen" in bodies[3]
    assert json.loads(bodies[3])
