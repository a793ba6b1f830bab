"""Cost of persisting one agent step (one assistant + one tool message) at a given transcript length.

    python persist.py files|openai_agents|langgraph|parts:MODULE [--quick]

files: append one JSONL record (with and without fsync), rewrite the whole JSON document via temp file + rename,
and one sqlite row per message. parts:MODULE measures the named project's own store (peers/MODULE.py, see
peers/README.md) beside the plain append. Median wall and mean CPU per step (CPU clocks are coarse).
"""

import asyncio
import importlib
import inspect
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time

QUICK = "--quick" in sys.argv
SIZES = [100, 1000] if QUICK else [100, 1000, 10000]  # the peers' stores; files always go to 10,000
FILES = [
    "jsonl append",
    "jsonl append + fsync",
    "whole-file rewrite + rename",
    "whole-file rewrite + fsync + rename",
    "sqlite row (WAL, synchronous=NORMAL)",
    "sqlite row (default journal)",
]


def message(i):
    if i % 2:
        return {"id": f"m{i}", "role": "tool", "tool_call_id": f"call_{i - 1}", "content": "x" * 200}
    return {
        "id": f"m{i}",
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": f"call_{i}", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
        ],
    }


def timed(fn, repeats):
    walls, cpus = [], []
    for i in range(repeats):
        w, c = time.perf_counter(), time.process_time()
        fn(i)
        cpus.append(time.process_time() - c)
        walls.append(time.perf_counter() - w)
    return statistics.median(walls) * 1e6, statistics.mean(cpus) * 1e6


def show(name, got):
    print(
        f"{name:44s} " + "  ".join(f"{n:>6}: {w:10.0f} us wall {c:10.0f} us cpu" for n, (w, c) in got.items()),
        flush=True,
    )


def files(names=FILES):
    dumps = lambda m: json.dumps(m, separators=(",", ":")).encode()  # noqa: E731
    with tempfile.TemporaryDirectory() as tmp:
        for name in names:
            got = {}
            for n in [100, 1000, 10000]:
                history = [message(i) for i in range(n)]
                path = os.path.join(tmp, f"{name[:12]}{n}{len(name)}".replace(" ", "_"))
                if name.startswith("jsonl"):
                    f = open(path, "ab")
                    f.write(b"".join(dumps(m) + b"\n" for m in history))

                    def step(i):
                        f.write(dumps(message(2 * i)) + b"\n" + dumps(message(2 * i + 1)) + b"\n")
                        f.flush()
                        if "fsync" in name:
                            os.fsync(f.fileno())
                elif name.startswith("whole"):

                    def step(i):
                        history.extend((message(2 * i), message(2 * i + 1)))
                        with open(path + ".tmp", "wb") as f:
                            f.write(dumps({"id": "s", "messages": history}))
                            if "fsync" in name:
                                f.flush()
                                os.fsync(f.fileno())
                        os.replace(path + ".tmp", path)
                else:
                    db = sqlite3.connect(path)
                    if "WAL" in name:
                        db.execute("pragma journal_mode=wal")
                        db.execute("pragma synchronous=normal")
                    db.execute("create table m (id integer primary key, session text, body text)")
                    db.executemany("insert into m (session, body) values ('s', ?)", [(dumps(m),) for m in history])
                    db.commit()

                    def step(i):
                        with db:
                            db.executemany(
                                "insert into m (session, body) values ('s', ?)",
                                [(dumps(message(2 * i)),), (dumps(message(2 * i + 1)),)],
                            )

                got[n] = timed(step, 10 if QUICK else 40)
            show(name, got)


async def timed_async(fn, repeats):
    walls, cpus = [], []
    for i in range(repeats):
        w, c = time.perf_counter(), time.process_time()
        out = fn(i)
        if inspect.isawaitable(out):
            await out
        cpus.append(time.process_time() - c)
        walls.append(time.perf_counter() - w)
    return statistics.median(walls) * 1e6, statistics.mean(cpus) * 1e6


def openai_agents():
    from agents import SQLiteSession

    got, load = {}, {}

    async def main(s, n):
        await s.add_items([message(i) for i in range(n)])
        got[n] = await timed_async(lambda i: s.add_items([message(2 * i), message(2 * i + 1)]), 20)
        load[n] = await timed_async(lambda i: s.get_items(), 5)

    with tempfile.TemporaryDirectory() as tmp:
        for n in SIZES:
            asyncio.run(main(SQLiteSession("s", os.path.join(tmp, f"{n}.db")), n))
    show("openai-agents SQLiteSession add_items", got)
    show("openai-agents SQLiteSession get_items (per run)", load)


def parts(module):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    store = importlib.import_module(f"peers.{module}").store
    got = {}

    async def main(folder, n):
        step = store(folder, [message(i) for i in range(n)])
        step = await step if inspect.isawaitable(step) else step
        got[n] = await timed_async(lambda i: step([message(n + 2 * i), message(n + 2 * i + 1)]), 10 if QUICK else 40)

    files(FILES[:2])
    with tempfile.TemporaryDirectory() as tmp:
        for n in [100, 1000, 10000]:
            folder = os.path.join(tmp, str(n))
            os.mkdir(folder)
            asyncio.run(main(folder, n))
    show(module, got)


def langgraph():
    from typing import Annotated, TypedDict

    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import START, StateGraph
    from langgraph.graph.message import add_messages

    class S(TypedDict):
        messages: Annotated[list, add_messages]

    def build(saver):
        g = StateGraph(S)
        g.add_node(
            "n",
            lambda s: {
                "messages": [
                    AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1, "b": 2}, "id": "c"}]),
                    ToolMessage("x" * 200, tool_call_id="c"),
                ]
            },
        )
        g.add_edge(START, "n")
        return g.compile(checkpointer=saver)

    with tempfile.TemporaryDirectory() as tmp:
        for name in ["none", "InMemorySaver", "SqliteSaver"]:
            got = {}
            for n in SIZES:
                saver = {
                    "none": lambda: None,
                    "InMemorySaver": InMemorySaver,
                    "SqliteSaver": lambda: SqliteSaver(
                        sqlite3.connect(os.path.join(tmp, f"{n}.db"), check_same_thread=False)
                    ),
                }[name]()
                app = build(saver)
                cfg = {"configurable": {"thread_id": "t"}}
                history = [HumanMessage("x" * 200) if i % 2 else AIMessage("y" * 100) for i in range(n)]
                if saver is None:
                    step = lambda i: app.invoke({"messages": history})  # noqa: E731
                else:
                    app.invoke({"messages": history}, cfg)
                    step = lambda i: app.invoke({"messages": [HumanMessage("go")]}, cfg)  # noqa: E731
                got[n] = timed(step, 3 if n > 1000 else 10)
            show(f"langgraph one-node step, checkpointer={name}", got)


what, _, module = sys.argv[1].partition(":")
if what != "openai_agents" and what != "langgraph":
    print("## persistence per step at transcript length (messages)", flush=True)
if module:
    parts(module)
else:
    {"files": files, "openai_agents": openai_agents, "langgraph": langgraph}[what]()
