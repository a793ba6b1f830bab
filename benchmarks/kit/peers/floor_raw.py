"""Floor: http.client on one keep-alive connection, orjson, cached message bytes. About what the hardware allows
from Python with a blocking client."""

import http.client
import threading
import time
from urllib.parse import urlsplit

import orjson

from peers.common import HEADERS, TOOLS, add, merge

TAIL = b'],"tools":' + orjson.dumps(TOOLS)
LOCAL = threading.local()


def setup(url):
    global PARTS
    PARTS = urlsplit(url + "/chat/completions")


def post(body):
    if not hasattr(LOCAL, "conn"):
        LOCAL.conn = http.client.HTTPConnection(PARTS.hostname, PARTS.port)
        LOCAL.conn.connect()
        import socket

        LOCAL.conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    LOCAL.conn.request("POST", PARTS.path, body, HEADERS)
    return LOCAL.conn.getresponse()


def run_calls(message, body):
    body += b"," + orjson.dumps(message)
    calls = message.get("tool_calls")
    if not calls:
        return True
    for c in calls:
        result = add(**orjson.loads(c["function"]["arguments"]))
        body += b"," + orjson.dumps({"role": "tool", "tool_call_id": c["id"], "content": str(result)})
    return False


def start(prompt):
    return bytearray(
        b'{"model":"fake","messages":[{"role":"system","content":"You are helpful."},'
        + orjson.dumps({"role": "user", "content": prompt})
    )


def steps(prompt, n):
    body = start(prompt)
    while True:
        message = orjson.loads(post(bytes(body) + TAIL + b"}").read())["choices"][0]["message"]
        if run_calls(message, body):
            return message["content"]


def payloads(response):
    rest = b""
    while data := response.read1(65536):
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        for line in lines:
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                yield line[6:]


def steps_stream(prompt, n):
    body = start(prompt)
    while True:
        message = {"role": "assistant", "content": None}
        for payload in payloads(post(bytes(body) + TAIL + b',"stream":true}')):
            for choice in orjson.loads(payload)["choices"]:
                merge(message, choice["delta"])
        if run_calls(message, body):
            return message["content"]


def text_stream(prompt):
    body = orjson.dumps({"model": "fake", "messages": [{"role": "user", "content": prompt}], "stream": True})
    first, parts = None, []
    for payload in payloads(post(body)):
        for choice in orjson.loads(payload)["choices"]:
            piece = choice["delta"].get("content")
            if piece:
                if first is None:
                    first = time.perf_counter()
                parts.append(piece)
    return first, len("".join(parts))


def oneshot(prompt):
    body = orjson.dumps({"model": "fake", "messages": [{"role": "user", "content": prompt}]})
    return orjson.loads(post(body).read())["choices"][0]["message"]["content"]
