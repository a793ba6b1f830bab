"""What it costs to keep a session on disk, beside the least that any journal could cost.

    python benchmarks/store.py [--steps N]

The floor appends one JSON line to an open file and syncs it. Times are per step, medians; "cpu" is of the process,
"wall" includes the disk. Compare ratios of one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from kestrel_nb.protocol.messages import ChatMessage, ToolCallPart, create_message, tool_message
from kestrel_nb.protocol.sessions import SessionDetail, SessionStep, apply_step
from kestrel_nb.runtime.file_store import FileSessionStore

SIZES = (100, 1_000, 10_000)


def step_messages(index: int) -> tuple[ChatMessage, ChatMessage]:
    """One step: a call and its result of 200 characters."""
    call = ToolCallPart(id=f"call_{index}", name="add", arguments={"a": 1, "b": 2}, raw_arguments='{"a": 1, "b": 2}')
    return create_message("assistant", [call]), tool_message(call, "x" * 200)


def plain_line(index: int) -> bytes:
    """The same step in the floor's form."""
    call = {"id": f"call_{index}", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    messages = [
        {"id": f"m{index}", "role": "assistant", "content": None, "tool_calls": [call]},
        {"id": f"r{index}", "role": "tool", "tool_call_id": f"call_{index}", "content": "x" * 200},
    ]
    return b"".join(json.dumps(message, separators=(",", ":")).encode() + b"\n" for message in messages)


async def measured(work: Callable[[int], Awaitable[None]], steps: int) -> tuple[float, float]:
    """(wall, cpu) of ``work`` in microseconds."""
    walls = []
    cpu = time.process_time()
    for index in range(steps):
        start = time.perf_counter()
        await work(index)
        walls.append(time.perf_counter() - start)
    return statistics.median(walls) * 1e6, (time.process_time() - cpu) / steps * 1e6


async def floor(folder: str, steps: int) -> tuple[float, float]:
    """A plain append and fsync."""
    fd = os.open(os.path.join(folder, "plain.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def work(index: int) -> None:
        os.write(fd, plain_line(index))
        os.fsync(fd)

    try:
        return await measured(work, steps)
    finally:
        os.close(fd)


async def at_size(folder: str, size: int, steps: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """(append_step, save with one new step) for a session of ``size`` messages."""
    store = FileSessionStore(folder)
    messages = tuple(message for index in range(size // 2) for message in step_messages(index))
    session = SessionDetail(id="session", messages=messages)
    await store.save(session)

    async def append(index: int) -> None:
        await store.append_step("session", SessionStep(seq=index + 1, updated_at=1.0, messages=step_messages(index)))

    async def save(index: int) -> None:
        nonlocal session
        session = apply_step(session, SessionStep(seq=session.seq + 1, updated_at=1.0, messages=step_messages(index)))
        await store.save(session)

    appended = await measured(append, steps)
    session = replace(session, seq=steps + 1)
    return appended, await measured(save, min(steps, 20))


async def main(steps: int) -> None:
    """Print one line per size."""
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            plain = await floor(folder, steps)
            append, save = await at_size(folder, size, steps)
        print(
            f"{size:>6} messages: append_step {append[0]:6.0f} us wall ({append[0] / plain[0]:.1f}x), "
            f"{append[1]:5.0f} us cpu ({append[1] / plain[1]:.1f}x) | floor {plain[0]:.0f} / {plain[1]:.0f} | "
            f"save after one step {save[0] / 1000:6.1f} ms wall, {save[1] / 1000:6.1f} ms cpu",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    asyncio.run(main(parser.parse_args().steps))
