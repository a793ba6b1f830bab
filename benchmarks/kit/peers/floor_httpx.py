"""Floor: one keep-alive httpx.AsyncClient, json from the standard library, the same growing history. No framework."""

import json
import time

import httpx

from peers.common import HEADERS, TOOLS, encode, merge, reply_with


def setup(url):
    global client, URL
    URL = url + "/chat/completions"
    client = httpx.AsyncClient(
        headers=HEADERS, timeout=60, limits=httpx.Limits(max_connections=1000, max_keepalive_connections=1000)
    )


async def close():
    await client.aclose()


async def steps(prompt, n):
    history = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": prompt}]
    while True:
        r = await client.post(URL, content=encode({"model": "fake", "messages": history, "tools": TOOLS}))
        message = json.loads(r.content)["choices"][0]["message"]
        if reply_with(message, history):
            return message["content"]


async def steps_stream(prompt, n):
    history = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": prompt}]
    while True:
        body = encode({"model": "fake", "messages": history, "tools": TOOLS, "stream": True})
        message = {"role": "assistant", "content": None}
        async with client.stream("POST", URL, content=body) as r:
            async for line in r.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    for choice in json.loads(line[6:])["choices"]:
                        merge(message, choice["delta"])
        if reply_with(message, history):
            return message["content"]


async def text_stream(prompt):
    body = encode({"model": "fake", "messages": [{"role": "user", "content": prompt}], "stream": True})
    first, parts = None, []
    async with client.stream("POST", URL, content=body) as r:
        async for line in r.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                for choice in json.loads(line[6:])["choices"]:
                    if choice["delta"].get("content"):
                        if first is None:
                            first = time.perf_counter()
                        parts.append(choice["delta"]["content"])
    return first, len("".join(parts))


async def oneshot(prompt):
    r = await client.post(URL, content=encode({"model": "fake", "messages": [{"role": "user", "content": prompt}]}))
    return json.loads(r.content)["choices"][0]["message"]["content"]
