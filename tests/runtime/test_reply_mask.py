"""Keys that a model repeats: however they are cut into pieces, no transcript, event, file or next request holds one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb import ApprovalDecision, Kestrel, ModelRequestError
from kestrel_nb.frames import approvals_frame, events_frame, messages_frame
from kestrel_nb.protocol.messages import ReasoningPart, TextPart
from kestrel_nb.protocol.sessions import CreateSessionRequest, ModelInfo
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.runtime.models import CompletionResponse, DeltaListener, TokenDelta
from kestrel_nb.runtime.reply_mask import StreamMask, masked_reply
from kestrel_nb.runtime.secrets import Masker
from kestrel_nb.testing import Reply, ScriptedModel

KEY = "sk-planted-0815/7Q+w-for-tests"
OTHER = "sk-plain-other-99"
PARTS = (KEY, KEY[:12], KEY[-12:])


def streamed(text: str, sizes: list[int], masker: Masker) -> str:
    mask, told, start = StreamMask(masker), [], 0
    for size in sizes:
        told.append(mask.feed(text[start : start + size]))
        start += size
    return "".join([*told, mask.feed(text[start:]), mask.end()])


@given(st.lists(st.sampled_from([KEY, OTHER, "sk-", "s", "sk-planted-", " and ", "-"]), max_size=8), st.data())
def test_pieces_are_masked_as_the_whole_is(words: list[str], data: st.DataObject) -> None:
    text, masker = "".join(words), Masker([KEY, OTHER])
    sizes = data.draw(st.lists(st.integers(0, 9), max_size=30))
    told = streamed(text, sizes, masker)
    assert KEY not in told
    assert OTHER not in told
    assert told == masker.mask(text)


def test_what_is_no_key_is_told_at_once() -> None:
    mask = StreamMask(Masker([KEY]))
    assert [mask.feed(piece) for piece in ("Hello", ", wor", "ld: sk", "ip it")] == [
        "Hello",
        ", wor",
        "ld: ",
        "skip it",
    ]
    assert StreamMask(Masker([])).feed("sk-") == "sk-"
    cut_off = StreamMask(Masker([KEY]))
    assert cut_off.feed(f"a {KEY[:-1]}") == "a "
    assert cut_off.end(whole=False) == ""


def test_what_was_signed_is_left_out_of_a_changed_text() -> None:
    parts = (ReasoningPart(text=f"the key {KEY}", extra={"signature": "x"}), TextPart(text="fine", extra={"y": 1}))
    masked = masked_reply(CompletionResponse(parts=parts), Masker([KEY]))
    assert masked.parts == (ReasoningPart(text="the key ***"), parts[1])
    whole = CompletionResponse(parts=parts[1:])
    assert masked_reply(whole, Masker([KEY])) is whole


def written(folder: Path) -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("chars", [1, 5, 1000])
async def test_a_key_that_is_repeated_stands_nowhere(
    chars: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", KEY)
    model = ScriptedModel(
        [
            Reply(f"It is {KEY}.", reasoning=f"So {KEY}", tool_calls=[("write_file", {"path": "k", "content": KEY})]),
            Reply("I will ask.", tool_calls=[("shell", {"command": f"echo {KEY}"})]),
            f"Done with {KEY}",
        ],
        delta_chars=chars,
    )

    async def no(request: Any, signal: Any) -> ApprovalDecision:
        assert request.arguments["command"] == f"echo {KEY}"  # what runs is shown as it is
        return ApprovalDecision(approved=False, reason=f"not with {KEY}")

    (tmp_path / "w").mkdir()
    store = FileSessionStore(str(tmp_path / "store"))
    events: list[Any] = []
    async with Kestrel(workspace=tmp_path / "w", model=model, store=store, approve=no) as app:
        app.sessions.subscribe(events.append)
        session = app.sessions.create(CreateSessionRequest(id="s"))
        result = await session.start("tell me")
        frames = [events_frame(events), messages_frame(session.messages), approvals_frame(session.approvals)]
    assert await asyncio.to_thread((tmp_path / "w" / "k").read_text) == KEY  # what runs is the model's own
    assert result.text == "Done with ***"
    assert "".join(event.text for event in events if event.type == "message.delta").startswith("It is ***.I will")
    assert "".join(event.text for event in events if event.type == "reasoning.delta") == "So ***"
    said = [message for request in model.requests for message in request.messages]
    places = {
        "texts": json.dumps([getattr(event, "text", "") for event in events]),
        "frames": "".join(frame.to_csv() for frame in frames),
        "files": await asyncio.to_thread(written, tmp_path / "store"),
        "requests": json.dumps([message.content for message in said if message.role == "assistant"]),
    }
    assert [(name, part) for name, text in places.items() for part in PARTS if part in text] == []
    assert "***" in places["files"]


async def test_a_reply_that_breaks_off_in_a_key_tells_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", KEY)
    events: list[Any] = []

    class Breaking:
        info = ModelInfo(id="breaking", provider="p")

        async def generate(self, request: Any, on_delta: DeltaListener | None = None) -> CompletionResponse:
            for text in ("It is ", KEY[:20]):
                if on_delta is not None:
                    on_delta(TokenDelta(text=text))
            raise ModelRequestError("gone")

    async with Kestrel(model=Breaking()) as app:
        app.events.subscribe("message.delta", events.append)
        with pytest.raises(ModelRequestError, match="gone"):
            await app.ask("tell me")
    assert "".join(event.text for event in events) == "It is "
