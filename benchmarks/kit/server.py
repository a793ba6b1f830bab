"""A fake OpenAI-compatible model server for benchmarks: raw asyncio, zero think time, scripted replies.

    python server.py [--port 0]          # prints "PORT <n>" on stdout once it is listening

The prompt scripts the reply. Somewhere near the start of the request body the server looks for

    [[bench <id> <scenario> <arg>]]

    steps  N    reply to the first N requests carrying this <id> with the tool call add(a=<step>, b=1),
                then with the text "done N"
    stepsfa N   the same, but ends with the tool call final_answer(answer="done N")  (frameworks that want one)
    text   N    one text reply of N deltas (N words)
    think  MS   wait MS milliseconds, then reply with the text "ok"

A request with "stream": true is answered as server-sent events, one HTTP chunk per event (what real servers
send), otherwise as one JSON body. The body is never parsed as JSON (three substring searches), so the server's own
cost stays small beside the client's even for megabyte-sized histories.

Endpoints: POST /v1/chat/completions (OpenAI chat), POST /v1/messages (Anthropic messages, non-streaming),
GET /stats (requests, bytes in/out, CPU seconds; ?reset=1 zeroes the counters and forgets the ids).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

CREATED = 1700000000
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class State:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.seen: dict[bytes, int] = {}
        self.requests = self.bytes_in = self.bytes_out = 0
        self.cpu0 = time.process_time()


STATE = State()
TEXT_CACHE: dict[tuple[int, bool], bytes] = {}


def dumps(obj) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


# ------------------------------------------------------------------ chat completions bodies


def completion(message: dict, finish: str) -> bytes:
    return dumps(
        {
            "id": "chatcmpl-bench",
            "object": "chat.completion",
            "created": CREATED,
            "model": "fake",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "usage": USAGE,
        }
    )


def event(delta: dict | None, finish: str | None = None, usage: dict | None = None) -> bytes:
    """One SSE event as one HTTP chunk."""
    obj = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": "fake",
        "choices": [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if usage is not None:
        obj["usage"] = usage
    return chunk(b"data: " + dumps(obj) + b"\n\n")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def tool_reply(step: int, name: str, arguments: dict, stream: bool, usage: bool) -> bytes:
    args = json.dumps(arguments)
    call_id = f"call_{step:06d}"
    if not stream:
        return completion(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": args}}],
            },
            "tool_calls",
        )
    cut = len(args) // 2
    parts = [
        event(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
                ],
            }
        ),
        event({"tool_calls": [{"index": 0, "function": {"arguments": args[:cut]}}]}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": args[cut:]}}]}),
        event({}, "tool_calls"),
    ]
    return finish_stream(parts, usage)


def text_reply(words: list[str], stream: bool, usage: bool) -> bytes:
    if not stream:
        return completion({"role": "assistant", "content": "".join(words)}, "stop")
    parts = [event({"role": "assistant", "content": ""})]
    parts += [event({"content": w}) for w in words]
    parts.append(event({}, "stop"))
    return finish_stream(parts, usage)


def finish_stream(parts: list[bytes], usage: bool) -> bytes:
    if usage:
        parts.append(event(None, usage=USAGE))
    parts.append(chunk(b"data: [DONE]\n\n"))
    parts.append(b"0\r\n\r\n")
    return b"".join(parts)


def words(n: int) -> list[str]:
    return [f" word{i % 1000:03d}" for i in range(n)]


def chat(body: bytes) -> tuple[bytes, bool, float]:
    """-> (encoded reply, is_stream, seconds to wait first)"""
    stream = b'"stream":true' in body or b'"stream": true' in body
    usage = b'"include_usage"' in body
    ident, scenario, arg = script(body)
    if scenario in (b"steps", b"stepsfa"):
        step = STATE.seen.get(ident, 0)
        STATE.seen[ident] = step + 1
        if step < arg:
            return tool_reply(step, "add", {"a": step, "b": 1}, stream, usage), stream, 0.0
        if scenario == b"stepsfa":
            return tool_reply(step, "final_answer", {"answer": f"done {arg}"}, stream, usage), stream, 0.0
        return text_reply(["done", f" {arg}"], stream, usage), stream, 0.0
    if scenario == b"think":
        return text_reply(["ok"], stream, usage), stream, arg / 1000
    if not stream:
        return text_reply(words(arg), False, usage), False, 0.0
    key = (arg, usage)
    if key not in TEXT_CACHE:
        TEXT_CACHE[key] = text_reply(words(arg), True, usage)
    return TEXT_CACHE[key], True, 0.0


def messages(body: bytes) -> tuple[bytes, bool, float]:
    """Anthropic-style endpoint, non-streaming only."""
    ident, scenario, arg = script(body)
    wait = 0.0
    content: list[dict] = [{"type": "text", "text": "ok"}]
    stop = "end_turn"
    if scenario in (b"steps", b"stepsfa"):
        step = STATE.seen.get(ident, 0)
        STATE.seen[ident] = step + 1
        content = [{"type": "text", "text": f"done {arg}"}]
        if step < arg:
            content = [{"type": "tool_use", "id": f"toolu_{step:06d}", "name": "add", "input": {"a": step, "b": 1}}]
            stop = "tool_use"
    elif scenario == b"think":
        wait = arg / 1000
    else:
        content = [{"type": "text", "text": "".join(words(arg))}]
    return (
        dumps(
            {
                "id": "msg_bench",
                "type": "message",
                "role": "assistant",
                "model": "fake",
                "content": content,
                "stop_reason": stop,
                "stop_sequence": None,
                "usage": {"input_tokens": 10, "output_tokens": 5},
            }
        ),
        False,
        wait,
    )


def script(body: bytes) -> tuple[bytes, bytes, int]:
    start = body.find(b"[[bench ")
    if start < 0:
        return b"", b"text", 1
    ident, scenario, arg = body[start + 8 : body.index(b"]]", start)].split()
    return ident, scenario, int(arg)


# ------------------------------------------------------------------ HTTP


class Http(asyncio.Protocol):
    def __init__(self) -> None:
        self.buf = bytearray()
        self.need = -1  # total bytes of the request being read, -1 while its head is incomplete
        self.head = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buf += data
        while True:
            if self.need < 0:
                end = self.buf.find(b"\r\n\r\n")
                if end < 0:
                    return
                self.head = end + 4
                self.need = self.head + content_length(bytes(self.buf[:end]))
            if len(self.buf) < self.need:
                return
            request = bytes(self.buf[: self.need])
            del self.buf[: self.need]
            head, self.need = self.head, -1
            self.handle(request[:head], request[head:])

    def handle(self, head: bytes, body: bytes) -> None:
        _method, path, _ = head.split(b" ", 2)
        if path.startswith(b"/stats"):
            out = dumps(
                {
                    "requests": STATE.requests,
                    "bytes_in": STATE.bytes_in,
                    "bytes_out": STATE.bytes_out,
                    "cpu": time.process_time() - STATE.cpu0,
                }
            )
            if b"reset=1" in path:
                STATE.reset()
            self.write(out, False)
            return
        STATE.requests += 1
        STATE.bytes_in += len(head) + len(body)
        if path.endswith(b"/chat/completions"):
            out, stream, wait = chat(body)
        elif path.split(b"?")[0].endswith(b"/messages"):
            out, stream, wait = messages(body)
        else:
            self.transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        if wait:
            asyncio.get_running_loop().call_later(wait, self.write, out, stream)
        else:
            self.write(out, stream)

    def write(self, out: bytes, stream: bool) -> None:
        if stream:
            head = (
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
            )
        else:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(out)
        STATE.bytes_out += len(head) + len(out)
        self.transport.write(head + out)


def content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line[:15].lower() == b"content-length:":
            return int(line[15:])
    return 0


async def main(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Http, "127.0.0.1", port, backlog=1024)
    print("PORT", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(main(parser.parse_args().port))
