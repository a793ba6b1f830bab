"""Benchmark driver: runs every peer against the fake server, interleaved, and prints tables of ratios to the floor.

    python bench.py setup [--venvs DIR] [--only GROUP ...]      # one venv per peer (pip install; slow, once)
    python bench.py run [--quick] [--tasks T ...] [--peers P ...] [--json out.json]

Standard library only; Linux (uses wait4 for peak memory). Peers whose venv is missing are skipped and named.
Figures are medians over repeats; repeats are interleaved (peer A, B, C, A, B, C, ...), so that a drift of the
machine's speed hits all of them alike. Read the ratios: absolute times say more about the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent

# group -> (pip requirements, statement for the import row). Raise the pins deliberately, all at once.
OPENAI = ["openai==3.57.0", "httpx2==2.16.2", "pydantic==2.14.4"]
GROUPS = {
    "floor": (
        [
            "httpx==0.28.1",
            "orjson==3.13.0",
            "jsonschema==4.26.0",
            "fastjsonschema==2.22.3",
            "jsonschema-rs==0.61.2",
            "msgspec==0.23.0",
            "pydantic==2.14.4",
            "wcmatch==12.0.1",
            "ipython==9.18.1",
            "ipykernel==7.4.0",
            "jupyter-client==8.10.0",
        ],
        "import httpx",
    ),
    "pydantic_ai": (["pydantic-ai-slim[openai]==2.68.0", *OPENAI], "from pydantic_ai import Agent"),
    "openai_agents": (["openai-agents==0.24.0", *OPENAI], "from agents import Agent, Runner"),
    "langgraph": (
        [
            "langgraph==1.2.24",
            "langchain==1.5.2",
            "langchain-openai==1.7.4",
            "langgraph-checkpoint-sqlite==3.1.2",
            *OPENAI,
        ],
        "from langchain.agents import create_agent",
    ),
    "smolagents": (["smolagents[openai]==1.26.0", *OPENAI], "from smolagents import ToolCallingAgent"),
    "claudette": (["claudette==0.3.15", "anthropic==2.14.0", "ipython==9.18.1"], "import claudette"),
    "jupyter_ai_magics": (
        [
            "jupyter-ai-magics==2.31.7",
            "langchain==0.3.30",
            "langchain-openai==0.3.35",
            "openai==2.54.0",
            "ipython==9.18.1",
        ],
        "import jupyter_ai_magics",
    ),
    "kestrel_nb": ([os.environ.get("KESTREL_NB", str(HERE.parent.parent))], "import kestrel_nb"),
}

# peer -> (group, tasks)
FULL = ("steps", "steps_stream", "text", "ttfe", "fanout")
PEERS = {
    "floor_httpx": ("floor", FULL),
    "floor_httpx2": ("pydantic_ai", FULL),
    "floor_cached": ("floor", FULL[:4]),
    "floor_raw": ("floor", FULL),
    "floor_sharded": ("floor", ("fanout",)),
    "openai_sdk_peer": ("pydantic_ai", FULL),
    "pydantic_ai_peer": ("pydantic_ai", FULL),
    "openai_agents_peer": ("openai_agents", FULL),
    "langgraph_peer": ("langgraph", FULL),
    "smolagents_peer": ("smolagents", FULL),
    "kestrel_nb_peer": ("kestrel_nb", FULL),
    "inproc_floor": ("floor", ("inproc",)),
    "inproc_pydantic_ai": ("pydantic_ai", ("inproc",)),
    "inproc_openai_agents": ("openai_agents", ("inproc",)),
    "inproc_langgraph": ("langgraph", ("inproc",)),
    "inproc_smolagents": ("smolagents", ("inproc",)),
    "inproc_kestrel_nb": ("kestrel_nb", ("inproc",)),
}

MAGICS = {  # statement run by a fresh `ipython -c`
    "(nothing)": ("floor", "pass"),
    "jupyter_ai_magics": ("jupyter_ai_magics", "%load_ext jupyter_ai_magics"),
    "kestrel_nb": ("kestrel_nb", "%load_ext kestrel_nb"),
}

NOTEBOOK = {  # name -> (group, arguments of notebook.py); an argument *.txt is a file in peers/, skipped while missing
    "print 5,000 times": ("floor", ["for i in range(5000): print('word', i)"]),
    "print(flush=True) 5,000 times": ("floor", ["for i in range(5000): print('word', i, flush=True)"]),
    "kestrel_nb 5,000 deltas, no front end": ("kestrel_nb", ["--cell-file", "notebook_kestrel_nb.txt"]),
    "kestrel_nb 5,000 deltas, live view": (
        "kestrel_nb",
        ["--ready", '{"type": "ready"}', "--cell-file", "notebook_kestrel_nb.txt"],
    ),
}
PARTS = "parts_kestrel_nb"  # peers/parts_kestrel_nb.py: the project's store, validator, grep and glob
CASES = [HERE.parent.parent / "tests" / "data" / "json-schema" / "rows.jsonl"]

WEIGHT = """
import importlib.metadata as m, json, os
n = size = 0
for d in m.distributions():
    if d.metadata["Name"].lower() in ("pip", "setuptools"): continue
    n += 1
    for f in d.files or ():
        try: size += os.path.getsize(d.locate_file(f))
        except OSError: pass
print(json.dumps([n, size / 1e6]))
"""


TASKS = [
    "import",
    "magics",
    "steps",
    "steps_stream",
    "inproc",
    "text",
    "ttfe",
    "fanout",
    "notebook",
    "persist",
    "validate",
    "search",
]
QUICK_TASKS = ["steps", "inproc", "text", "fanout", "persist", "validate", "search"]


class Server:
    def __enter__(self):
        self.proc = subprocess.Popen([sys.executable, str(HERE / "server.py")], stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.proc.stdout.readline().split()[1]}"
        return self

    def __exit__(self, *exc):
        self.proc.terminate()
        self.proc.wait()

    def stats(self) -> dict:
        with urllib.request.urlopen(self.url + "/stats?reset=1") as r:
            return json.load(r)


def measure(argv: list[str], env=None, timeout: float = 300) -> tuple[float, float, float, str]:
    """-> wall seconds, cpu seconds, peak MB, stdout"""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        proc = subprocess.Popen(argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=env)
        timer = threading.Timer(timeout, proc.kill)
        timer.start()
        _, status, usage = os.wait4(proc.pid, 0)
        timer.cancel()
        wall = time.perf_counter() - start
        proc.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if proc.returncode:
            said = (out.read() + err.read()).decode(errors="replace")[-900:]
            raise RuntimeError(f"{' '.join(argv[1:4])}: exit {proc.returncode}: {said}")
        return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.read().decode()


def table(title: str, head: list[str], rows: list[list]) -> None:
    rows = [[f"{c:.2f}" if isinstance(c, float) else str(c) for c in r] for r in rows]
    width = [max(len(x[i]) for x in [head, *rows]) for i in range(len(head))]
    print(f"\n## {title}")
    for r in [head, ["-" * w for w in width], *rows]:
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, width))))
    sys.stdout.flush()


class Bench:
    def __init__(self, args) -> None:
        self.venvs = Path(args.venvs).resolve()
        self.args = args
        self.failed: set[tuple[str, str]] = set()
        self.results: list[dict] = []

    def python(self, group: str) -> str | None:
        p = self.venvs / group / "bin" / "python"
        return str(p) if p.exists() else None

    def usable(self, task: str) -> list[str]:
        return [
            p
            for p, (group, tasks) in PEERS.items()
            if task in tasks
            and self.python(group)
            and (HERE / "peers" / f"{p}.py").exists()
            and (p, task) not in self.failed
            and (not self.args.peers or p in self.args.peers or "floor" in p)
        ]

    # ------------------------------------------------------------ the agent tasks

    def harness(self, server: Server, peer: str, task: str, n: int) -> dict | None:
        argv = [
            self.python(PEERS[peer][0]),
            str(HERE / "harness.py"),
            "--peer",
            peer,
            "--n",
            str(n),
            "--url",
            server.url + "/v1",
            "--task",
            {"steps_stream": "steps", "inproc": "steps"}.get(task, task),
        ]
        if task == "steps_stream":
            argv.append("--stream")
        server.stats()
        try:
            out = json.loads(measure(argv)[3].splitlines()[-1])
        except (RuntimeError, IndexError, ValueError) as e:
            print(f"!! {peer} {task}: {e}", file=sys.stderr)
            self.failed.add((peer, task))
            return None
        out["task"] = task
        out["wire_mb"] = server.stats()["bytes_in"] / 1e6
        self.results.append(out)
        print(
            f"   {peer} {task} n={n}: cpu {out['cpu']:.3f} s, wall {out['wall']:.3f} s, "
            f"rss +{out['rss_growth_mb']:.1f} MB, sent {out['wire_mb']:.2f} MB",
            file=sys.stderr,
            flush=True,
        )
        return out

    def task(self, server: Server, task: str, sizes: list[int], repeats: int, title: str, unit: float = 1e6) -> None:
        got: dict[tuple[str, int], list[dict]] = {}
        sizes, repeats = self.args.sizes or sizes, self.args.repeats or repeats
        for i in range(repeats):
            for n in sizes:
                long = task == "steps" and n >= 100 and not self.args.sizes and not self.args.repeats
                for peer in self.usable(task):
                    ours = "floor" in peer or "kestrel_nb" in peer
                    if (long and i) or (task == "steps" and n > 200 and not ours and not self.args.sizes):
                        continue  # the peers are quadratic in n: 100 steps run once, 800 would take them minutes
                    out = self.harness(server, peer, task, n)
                    if out:
                        got.setdefault((peer, n), []).append(out)
        floor = "inproc_floor" if task == "inproc" else "floor_httpx"
        key = "first_s" if task == "ttfe" else "cpu"

        def med(peer, n, k):
            return statistics.median(o[k] for o in got[peer, n])

        rows = []
        extra = {"fanout": ["wall s", "KiB/run"], "steps": ["MB sent"], "steps_stream": ["MB sent"]}.get(task, [])
        for peer in dict.fromkeys(p for p, _ in got):
            row: list = [peer]
            for n in sizes:
                if (peer, n) not in got or (floor, n) not in got:
                    row += ["-"] * (3 + len(extra))
                    continue
                per = 1 if task in ("fanout", "ttfe") else n
                row += [
                    f"{med(peer, n, key) / per * (1e3 if per == 1 else 1e6):.1f}",
                    f"{med(peer, n, key) / med(floor, n, key):.2f}x",
                    f"{med(peer, n, 'wall') / med(floor, n, 'wall'):.2f}x",
                ]
                if task == "fanout":
                    row += [f"{med(peer, n, 'wall'):.2f}", f"{med(peer, n, 'rss_growth_mb') / n * 1024:.0f}"]
                elif task in ("steps", "steps_stream"):
                    row += [f"{med(peer, n, 'wire_mb'):.1f}"]
            rows.append(row)
        u = "ms" if task in ("fanout", "ttfe") else "us/step" if task != "text" else "us/delta"
        head = ["peer"]
        for n in sizes:
            head += [f"n={n} {'first ' if task == 'ttfe' else 'cpu '}{u}", "xfloor", "wall xfloor", *extra]
        table(title, head, rows)

    # ------------------------------------------------------------ imports, magics, dependency weight

    def imports(self, repeats: int) -> None:
        base: dict[str, list] = {}
        todo = [(g, self.python(g), s) for g, (_, s) in GROUPS.items() if self.python(g)]
        todo.insert(0, ("(bare python)", self.python("floor"), "pass"))
        todo.insert(1, ("httpx+jsonschema", self.python("floor"), "import httpx, jsonschema"))
        for _ in range(repeats + 1):  # the first round warms the page cache and the .pyc files
            for name, py, statement in todo:
                base.setdefault(name, []).append(measure([py, "-c", statement])[:3])
        rows = []
        floor = base["httpx+jsonschema"][1:]
        for name, py, statement in todo:
            got = base[name][1:]
            wall, cpu, peak = (statistics.median(x) for x in zip(*got))
            mods = measure([py, "-c", statement + "\nimport sys; print(len(sys.modules))"])[3].strip()
            dists, mb = json.loads(measure([py, "-c", WEIGHT])[3])
            rows.append(
                [
                    name,
                    f"{wall:.2f}",
                    f"{cpu:.2f}",
                    f"{cpu / statistics.median(c for _, c, _ in floor):.2f}x",
                    f"{peak:.0f}",
                    mods,
                    dists,
                    f"{mb:.0f}",
                ]
            )
            self.results.append(
                {
                    "task": "import",
                    "peer": name,
                    "wall": wall,
                    "cpu": cpu,
                    "rss_mb": peak,
                    "modules": int(mods),
                    "dists": dists,
                    "dists_mb": mb,
                }
            )
        table(
            "import (python -c)",
            [
                "package",
                "wall s",
                "cpu s",
                "cpu x(httpx+jsonschema)",
                "peak MB",
                "modules",
                "dists in venv",
                "MB in venv",
            ],
            rows,
        )

    def magics(self, repeats: int) -> None:
        got: dict[str, list] = {}
        with tempfile.TemporaryDirectory() as tmp:
            env = {**os.environ, "IPYTHONDIR": tmp}
            todo = [(n, self.python(g), s) for n, (g, s) in MAGICS.items() if self.python(g)]
            for _ in range(repeats + 1):
                for name, py, statement in todo:
                    try:
                        argv = [py, "-m", "IPython", "--no-banner", "--no-confirm-exit", "-c", statement]
                        got.setdefault(name, []).append(measure(argv, env)[:3])
                    except RuntimeError as e:
                        print(f"!! magics {name}: {e}", file=sys.stderr)
        base = statistics.median(c for _, c, _ in got["(nothing)"][1:])
        rows = []
        for name, runs in got.items():
            wall, cpu, peak = (statistics.median(x) for x in zip(*runs[1:]))
            rows.append([name, f"{wall:.2f}", f"{cpu:.2f}", f"{cpu / base:.2f}x", f"{peak:.0f}"])
            self.results.append({"task": "magics", "peer": name, "wall": wall, "cpu": cpu, "rss_mb": peak})
        table("%load_ext in a fresh IPython", ["extension", "wall s", "cpu s", "x(nothing)", "peak MB"], rows)

    # ------------------------------------------------------------ the stand-alone scripts

    def script(self, name: str, group: str, *argv: str) -> None:
        py = self.python(group)
        if py and (group != "kestrel_nb" or (HERE / "peers" / f"{PARTS}.py").exists()):
            try:
                print(measure([py, str(HERE / name), *argv])[3].rstrip(), flush=True)
            except RuntimeError as e:
                print(f"!! {name}: {e}", file=sys.stderr)

    def notebook(self, server: Server, repeats: int) -> None:
        got: dict[str, list[dict]] = {}
        for _ in range(repeats):
            for name, (group, argv) in NOTEBOOK.items():
                argv = [str(HERE / "peers" / a) if a.endswith(".txt") else a for a in argv]
                if not self.python(group) or (argv[-1].endswith(".txt") and not os.path.exists(argv[-1])):
                    continue
                try:
                    out = json.loads(
                        measure(
                            [self.python(group), str(HERE / "notebook.py"), "--json", *argv],
                            {**os.environ, "BENCH_URL": server.url + "/v1"},
                        )[3]
                    )
                    if out["status"] != "ok":
                        raise RuntimeError(f"the cell ended with status {out['status']}")
                except RuntimeError as e:
                    print(f"!! notebook {name}: {e}", file=sys.stderr)
                    continue
                got.setdefault(name, []).append(out)
                self.results.append({"task": "notebook", "peer": name, **out})
        rows = []
        for name, runs in got.items():

            def med(f):
                return statistics.median(f(r) for r in runs)

            kinds = {k: med(lambda r: r["number"].get(k, 0)) for k in ("stream", "comm_msg")}
            display = med(lambda r: sum(v for k, v in r["number"].items() if "display" in k))
            rows.append(
                [
                    name,
                    f"{med(lambda r: r['messages']):.0f}",
                    f"{med(lambda r: r['bytes']) / 1e6:.3f}",
                    f"{kinds['stream']:.0f}",
                    f"{kinds['comm_msg']:.0f}",
                    f"{display:.0f}",
                    med(lambda r: r["cpu"]),
                    med(lambda r: r["wall"]),
                ]
            )
        table(
            "one cell in a kernel: what goes to the front end on iopub",
            ["cell", "messages", "MB", "stream", "comm_msg", "display", "kernel cpu s", "wall s"],
            rows,
        )


def setup(args) -> None:
    venvs = Path(args.venvs)
    failed = []
    for group in args.only or GROUPS:
        target, requirements = venvs / group, GROUPS[group][0]
        if group == "kestrel_nb" and not (Path(requirements[0]) / "pyproject.toml").exists():
            print(f"== {group}: no pyproject.toml in {requirements[0]}, skipped (set KESTREL_NB)", flush=True)
            continue
        print(f"== {group}: {' '.join(requirements)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(target)], check=True)
        code = subprocess.run(
            [str(target / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements]
        ).returncode
        if code:
            failed.append(group)
            shutil.rmtree(target)
    if failed:
        sys.exit(f"could not be installed, will be skipped: {', '.join(failed)}")


def run(args) -> None:
    b = Bench(args)
    if not b.python("floor"):
        sys.exit("no floor venv: run `python bench.py setup` first")
    started = time.perf_counter()
    q = args.quick
    skipped = [g for g in GROUPS if not b.python(g)]
    print(f"python {sys.version.split()[0]}, {os.cpu_count()} cores; no venv for: {', '.join(skipped) or 'none'}")
    try:
        tasks(b, args.tasks or (QUICK_TASKS if q else TASKS), q)
    finally:  # an interrupted run keeps what it has
        print(f"\ntook {time.perf_counter() - started:.0f} s")
        if args.json:
            Path(args.json).write_text(json.dumps(b.results, indent=1))


def tasks(b: Bench, want: list[str], q: bool) -> None:
    if "import" in want:
        b.imports(1 if q else 2)
    if "magics" in want:
        b.magics(1 if q else 2)
    with Server() as server:
        if "steps" in want:
            b.task(
                server,
                "steps",
                [20] if q else [50, 100, 800],
                1 if q else 2,
                "agent steps with one tool call each, non-streaming",
            )
        if "steps_stream" in want:
            b.task(server, "steps_stream", [20] if q else [50], 1 if q else 2, "the same, streaming")
        if "inproc" in want:
            b.task(server, "inproc", [50] if q else [50, 200], 1 if q else 2, "the same, model in process, no HTTP")
        if "text" in want:
            b.task(server, "text", [1000] if q else [4000], 1 if q else 2, "one streamed reply of n deltas")
        if "ttfe" in want:
            b.task(
                server,
                "ttfe",
                [10] if q else [50],
                1 if q else 2,
                "time to the first text event (median of n warm runs)",
            )
        if "fanout" in want:
            b.task(
                server,
                "fanout",
                [50] if q else [200],
                1 if q else 2,
                "n concurrent one-shot runs, server thinks 200 ms (ideal wall: 0.2 s)",
            )
        if "notebook" in want:
            b.notebook(server, 1 if q else 2)
    quick = ["--quick"] if q else []
    if "persist" in want:
        print()
        b.script("persist.py", "floor", "files", *quick)
        b.script("persist.py", "openai_agents", "openai_agents", *quick)
        b.script("persist.py", "langgraph", "langgraph", *quick)
        b.script("persist.py", "kestrel_nb", f"parts:{PARTS}", *quick)
    if "validate" in want:
        print()
        cases = [f"--cases={c}" for c in CASES if c.exists()][:1]
        b.script("validate.py", "floor", *quick, *cases)
        b.script("validate.py", "kestrel_nb", "--parts", PARTS, *quick, *cases)
    if "search" in want:
        print()
        b.script("search.py", "floor", *quick)
        b.script("search.py", "kestrel_nb", "--parts", PARTS, *quick)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["setup", "run"])
    parser.add_argument("--venvs", default=str(HERE / ".venvs"))
    parser.add_argument("--only", nargs="*", help="setup: these groups only")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tasks", nargs="*", choices=TASKS)
    parser.add_argument("--peers", nargs="*", help="run: these peers only (the floors always run)")
    parser.add_argument("--sizes", type=int, nargs="*", help="run: override the sizes of the agent tasks")
    parser.add_argument("--repeats", type=int, help="run: override the number of repeats of the agent tasks")
    parser.add_argument("--json")
    args = parser.parse_args()
    {"setup": setup, "run": run}[args.command](args)


if __name__ == "__main__":
    main()
