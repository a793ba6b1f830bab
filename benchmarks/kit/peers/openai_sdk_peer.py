"""openai SDK alone (AsyncOpenAI) with a hand-written loop: what the frameworks above stand on."""

import time

from openai import AsyncOpenAI

from peers.common import TOOLS, merge, reply_with


def setup(url):
    global client
    client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0)


async def steps(prompt, n):
    history = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": prompt}]
    while True:
        r = await client.chat.completions.create(model="fake", messages=history, tools=TOOLS)
        if reply_with(r.choices[0].message.model_dump(exclude_none=True), history):
            return r.choices[0].message.content


async def steps_stream(prompt, n):
    history = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": prompt}]
    while True:
        message = {"role": "assistant", "content": None}
        async for c in await client.chat.completions.create(model="fake", messages=history, tools=TOOLS, stream=True):
            for choice in c.choices:
                merge(message, choice.delta.model_dump(exclude_none=True))
        if reply_with(message, history):
            return message["content"]


async def text_stream(prompt):
    first, parts = None, []
    async for c in await client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": prompt}], stream=True
    ):
        if c.choices and c.choices[0].delta.content:
            if first is None:
                first = time.perf_counter()
            parts.append(c.choices[0].delta.content)
    return first, len("".join(parts))


async def oneshot(prompt):
    r = await client.chat.completions.create(model="fake", messages=[{"role": "user", "content": prompt}])
    return r.choices[0].message.content
