"""Floor: httpx.AsyncClient, but every message is encoded once and the body is joined from cached bytes; SSE is split
on raw bytes. What a framework can reach while keeping httpx and the standard library's json."""

import json
import time

from peers import common
from peers import floor_httpx as base
from peers.floor_httpx import close, oneshot  # noqa: F401

TAIL = b'],"tools":' + common.encode(common.TOOLS)
HEAD = b'{"model":"fake","messages":['


def setup(url):
    base.setup(url)


def start(prompt):
    history = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": prompt}]
    return history, bytearray(HEAD + b",".join(map(common.encode, history)))


def grow(history, body, old):
    for m in history[old:]:
        body += b"," + common.encode(m)


async def steps(prompt, n):
    history, body = start(prompt)
    while True:
        r = await base.client.post(base.URL, content=bytes(body) + TAIL + b"}")
        message = json.loads(r.content)["choices"][0]["message"]
        old = len(history)
        if common.reply_with(message, history):
            return message["content"]
        grow(history, body, old)


async def events(response):
    """data payloads of an SSE response, as bytes, split without decoding or per-line objects"""
    rest = b""
    async for data in response.aiter_raw():
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        for line in lines:
            if line.startswith(b"data:"):
                payload = line[5:].strip()
                if payload == b"[DONE]":
                    continue  # read on to the end, so that the connection is kept
                yield payload


async def steps_stream(prompt, n):
    history, body = start(prompt)
    while True:
        message = {"role": "assistant", "content": None}
        async with base.client.stream("POST", base.URL, content=bytes(body) + TAIL + b',"stream":true}') as r:
            async for payload in events(r):
                for choice in json.loads(payload)["choices"]:
                    common.merge(message, choice["delta"])
        old = len(history)
        if common.reply_with(message, history):
            return message["content"]
        grow(history, body, old)


async def text_stream(prompt):
    body = common.encode({"model": "fake", "messages": [{"role": "user", "content": prompt}], "stream": True})
    first, parts = None, []
    async with base.client.stream("POST", base.URL, content=body) as r:
        async for payload in events(r):
            for choice in json.loads(payload)["choices"]:
                piece = choice["delta"].get("content")
                if piece:
                    if first is None:
                        first = time.perf_counter()
                    parts.append(piece)
    return first, len("".join(parts))
