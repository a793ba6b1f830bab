"""A model on a server, asked from a cell: it streams, calls a tool that asks, and Stop closes its connection."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from lab_page import Open
from model_server import STALL, ModelServer, Steps, chat_calls, chat_event, chat_text, chunk, stream_head, streamed
from sample_cells import LOAD
from test_approval_cards import assert_one_record, press, wait_card


@contextmanager
def serving(*replies: Steps) -> Iterator[ModelServer]:
    """A server with these replies, on an event loop of its own."""
    loop, server = asyncio.new_event_loop(), ModelServer(replies)
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def test_a_reply_streams_and_its_call_waits_for_a_click(open_lab: Open) -> None:
    slowly = [
        stream_head(),
        chunk(chat_event({"content": "I write it "})),
        1.5,
        chunk(chat_event({"content": "down."})),
    ]
    calls = chat_calls(("shell", '{"command": "echo kept > of_the_model.txt"}'))
    with serving([*slowly, *map(chunk, calls), b"0\r\n\r\n"], streamed(*chat_text("It is ", "written."))) as server:
        page = open_lab([LOAD, f"%%kestrel -m openai+{server.url}/v1:far\nWrite a note.", "print('after')"])
        page.run_all()
        page.wait_text(1, "I write it")
        assert page.prompt(1) == "*"
        wait_card(page, 1)
        assert not (page.server.root / "of_the_model.txt").exists()
        page.page.screenshot(path=page.shots / "model-card.png")
        press(page, 1, "Approve")
        page.wait_text(1, "It is written.")
        page.wait_text(2, "after")
        page.page.screenshot(path=page.shots / "model-record.png")
        assert (page.server.root / "of_the_model.txt").read_text() == "kept\n"
        told = [message["role"] for message in server.requests[1].json["messages"]]
        assert told[-3:] == ["user", "assistant", "tool"]
    record = assert_one_record(page.save(), 1)
    assert "I write it down." in record["text/plain"]
    assert "It is written." in record["text/plain"]


def test_stop_closes_the_connection_and_the_next_cell_is_answered(open_lab: Open) -> None:
    endless = [stream_head(), chunk(chat_event({"content": "On and on"})), STALL]
    with serving(endless, streamed(*chat_text("Here I am."))) as server:
        cell = f"%%kestrel -m openai+{server.url}/v1:far\n"
        page = open_lab([LOAD, f"{cell}Talk.", f"{cell}Are you there?"])
        page.run_all()
        page.wait_text(1, "On and on")
        press(page, 1, "Stop")
        page.wait_text(2, "Here I am.")
        until = time.monotonic() + 10
        while not server.gone and time.monotonic() < until:
            time.sleep(0.05)
        assert server.gone == 1
        assert "Stopped" in assert_one_record(page.save(), 1)["text/plain"]
