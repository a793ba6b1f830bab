"""Run one task of one peer in the current interpreter and print one JSON line.

    python harness.py --peer pydantic_ai --task steps --n 200 --url http://127.0.0.1:PORT/v1 [--stream]

A peer is peers/<name>.py (see peers/README.md). Imports and one small warm-up run are outside the timed part. CPU is
this process's user+system time over the timed part (all threads, server not included).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import inspect
import io
import json
import os
import resource
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
COUNTER = 0


def prompt(scenario: str, arg: int) -> str:
    global COUNTER
    COUNTER += 1
    return f"[[bench {os.getpid()}x{COUNTER} {scenario} {arg}]] Work through the task."


def rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def call(fn, *args):
    out = fn(*args)
    return await out if inspect.isawaitable(out) else out


async def steps(peer, n: int, stream: bool) -> None:
    fn = peer.steps_stream if stream else peer.steps
    out = await call(fn, prompt(getattr(peer, "SCENARIO", "steps"), n), n)
    assert str(out).strip() == f"done {n}", f"wrong final answer: {out!r}"


async def text(peer, n: int) -> float:
    """-> seconds from the call to the first text delta"""
    start = time.perf_counter()
    first, chars = await call(peer.text_stream, prompt("text", n))
    assert chars == 8 * n, f"{chars} characters, wanted {8 * n}"
    return first - start


async def fanout(peer, k: int, think_ms: int) -> None:
    prompts = [prompt("think", think_ms) for _ in range(k)]
    if hasattr(peer, "fanout"):  # a peer with a batch call of its own
        outs = await call(peer.fanout, prompts)
    elif inspect.iscoroutinefunction(peer.oneshot):
        outs = await asyncio.gather(*(peer.oneshot(p) for p in prompts))
    else:
        with ThreadPoolExecutor(k) as pool:
            outs = list(pool.map(peer.oneshot, prompts))
    assert [str(o) for o in outs] == ["ok"] * k, outs[:3]


async def run(args) -> dict:
    peer = importlib.import_module(f"peers.{args.peer}")
    await call(peer.setup, args.url)
    extra: dict = {}
    if args.task == "steps":
        await steps(peer, 3, args.stream)
    elif args.task in ("text", "ttfe"):
        await text(peer, 20)
    elif args.task == "fanout":
        await fanout(peer, 2, 1)
    rss0 = rss_mb()
    wall0, cpu0 = time.perf_counter(), time.process_time()
    if args.task == "steps":
        await steps(peer, args.n, args.stream)
    elif args.task == "text":
        extra["first_s"] = await text(peer, args.n)
    elif args.task == "ttfe":
        extra["first_s"] = statistics.median([await text(peer, 20) for _ in range(args.n)])
    elif args.task == "fanout":
        await fanout(peer, args.n, args.think_ms)
    wall, cpu = time.perf_counter() - wall0, time.process_time() - cpu0
    rss1 = rss_mb()
    if hasattr(peer, "close"):
        await call(peer.close)
    return {
        "peer": args.peer,
        "task": args.task,
        "n": args.n,
        "stream": args.stream,
        "wall": wall,
        "cpu": cpu,
        "rss_mb": rss1,
        "rss_growth_mb": rss1 - rss0,
        **extra,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--task", required=True, choices=["steps", "text", "ttfe", "fanout"])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--think-ms", type=int, default=200)
    parser.add_argument("--url", required=True)
    args = parser.parse_args()
    with contextlib.redirect_stdout(io.StringIO()):  # some frameworks print
        out = asyncio.run(run(args))
    print(json.dumps(out))


if __name__ == "__main__":
    main()
