"""Floor for the fan-out: ten httpx clients with one SSL context between them. One client with hundreds of requests in
flight spends its time searching its connection pool; AsyncClient() without a shared context loads the CA file each time."""

import asyncio
import json
import ssl

import httpx

from peers.common import HEADERS, encode

SHARDS = 10


def setup(url):
    global clients, URL
    URL = url + "/chat/completions"
    context = ssl.create_default_context()
    clients = [
        httpx.AsyncClient(
            headers=HEADERS,
            timeout=60,
            verify=context,
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=100),
        )
        for _ in range(SHARDS)
    ]


async def close():
    for c in clients:
        await c.aclose()


async def one(client, prompt):
    r = await client.post(URL, content=encode({"model": "fake", "messages": [{"role": "user", "content": prompt}]}))
    return json.loads(r.content)["choices"][0]["message"]["content"]


async def fanout(prompts):
    return await asyncio.gather(*(one(clients[i % SHARDS], p) for i, p in enumerate(prompts)))
