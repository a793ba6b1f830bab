"""A notebook that was recorded, saved and is played again: without key and network, to the byte."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import nbformat
import pytest

LIMIT = 90  # seconds of one program
KEY = "zq-planted-key-5512-for-tests"
pytestmark = pytest.mark.timeout(4 * LIMIT)

# Stands for a service with a key: it works only where the key is set, and is counted.
SERVICE = '''
from kestrel_nb import CompletionResponse, ModelInfo, TokenDelta, ToolSchema, Usage, tool
from kestrel_nb.protocol.codec import parse_call
import os, json, pathlib, secrets


class Service:
    info = ModelInfo(id="cloud:big", provider="cloud", label="Big")

    async def generate(self, request, on_delta=None):
        if "SERVICE_API_KEY" not in os.environ:
            raise RuntimeError("no key")
        said = [message.content for message in request.messages if message.role == "user"][-1]
        results = [message for message in request.messages if message.role == "tool"]
        text, calls = "", ()
        if request.messages[-1].role == "tool":
            text = f"It said: {request.messages[-1].content}"
        elif said.startswith("call "):
            name, _, raw = said.removeprefix("call ").partition(" ")
            calls = (parse_call("call_" + secrets.token_hex(6), name, raw),)
        else:
            text = f"You said {said} ({secrets.token_hex(4)})"
        for piece in (text[:5], text[5:]):
            if piece and on_delta:
                on_delta(TokenDelta(text=piece))
        return CompletionResponse(
            content=text, reasoning="hm", tool_calls=calls, usage=Usage(input_tokens=len(said), output_tokens=7)
        )


@tool(permission="ask", deterministic=False)
def measure(place: str) -> dict:
    """Measure.

    Args:
        place: where.
    """
    with open("measured.txt", "a") as file:
        file.write(place)
    rows = [[place, secrets.token_hex(4)], ["key", os.environ["SERVICE_API_KEY"]]]
    return {"columns": ["place", "value"], "rows": rows}


model = Service()
'''
# Loaded by Python itself in every process of a run: whatever reaches for the network is noted and fails.
NO_NETWORK = """
import socket


def refuse(*args, **options):
    with open({log!r}, "a") as file:
        file.write(repr(args))
    raise OSError("no network here")


socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
"""


class Chat(BaseHTTPRequestHandler):
    """A server of the OpenAI kind, which wants a key."""

    def log_message(self, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        known = self.headers.get("authorization") == f"Bearer {KEY}"
        self.send_response(200 if known else 401)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        pieces: list[Any] = [{"delta": {"content": piece}} for piece in ("Over", " the", " wire.")]
        pieces.append({"delta": {}, "finish_reason": "stop"})
        for piece in pieces if known else ():
            data = {"id": "1", "object": "chat.completion.chunk", "model": "tiny", "choices": [{"index": 0, **piece}]}
            self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")


CELLS = [
    "%load_ext kestrel_nb\nfrom service import measure, model",
    "%kestrel use model",
    "%kestrel record talk.jsonl",
    "%%kestrel -o hello\nhello there",
    'print(hello.status, hello.text.startswith("You said hello"))',
    '%%kestrel -t measure\ncall measure {"place": "Oslo"}',
    '%%kestrel -t run_python\ncall run_python {"code": "x = 6 * 7\\nprint(\'x is\', x)"}',
    "print(x)",
    '%%kestrel --headless deny\ncall shell {"command": "echo no"}',
    "%%kestrel\ncall date-time {}",
    '%%kestrel\ncall list_dir {"path": "data"}',
    '%%kestrel\ncall list_dir {"path": "."}',  # which holds the cassette itself
    '%%kestrel\ncall write_file {"path": "notes.txt", "content": "from the agent"}',
    'print(open("notes.txt").read())',
    '%%kestrel\ncall edit_file {"path": "notes.txt", "old_string": "agent", "new_string": "agent and more"}',
    'print(open("notes.txt").read())',
    '%%kestrel --headless approve\ncall shell {"command": "echo $HOME $HOME/x; pwd; date +%N"}',
    '%%kestrel\ncall run_python {"code": "import random\\nprint(random.random())"}',
    "%%kestrel -s plan\nhello, plan",
    "%kestrel fork copy",
    "%%kestrel\nhello in the copy",
    "%%kestrel\nsay again: {hello}",
    "%kestrel usage",
    "%%kestrel -m openai+http://127.0.0.1:PORT/v1:tiny\nhello over there",
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("a")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cells = [cell.replace("PORT", str(server.server_port)) for cell in CELLS]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell, id=f"cell-{index}") for index, cell in enumerate(cells)],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(notebook, tmp_path / "talk.ipynb")
    yield tmp_path
    server.shutdown()
    server.server_close()


def run(folder: Path, cassette: str, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("KESTREL_")}
    home = folder.parent / f"home of {folder.name}"  # so that each folder has a user of its own
    home.mkdir(exist_ok=True)
    env |= {"HOME": str(home), "IPYTHONDIR": str(folder / "ipython"), "PYTHONWARNINGS": "ignore"}
    env |= {"KESTREL_CASSETTE": cassette} if cassette else {}
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=env | extra,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def outputs(path: Path) -> list[Any]:
    return [cell.get("outputs", []) for cell in json.loads(path.read_text("utf-8"))["cells"]]


def execute(folder: Path, cassette: str, target: str, **extra: str) -> list[Any]:
    words = ("nbconvert", "--to", "notebook", "--execute", "--output", target, "talk.ipynb")
    done = run(folder, cassette, *words, **extra)
    assert done.returncode == 0, done.stderr[-3000:]
    return outputs(folder / target)


def test_a_recorded_notebook_passes_strict_nbval_without_key_and_model(folder: Path, tmp_path_factory: Any) -> None:
    keys = {"SERVICE_API_KEY": KEY, "KESTREL_API_KEY_127_0_0_1": KEY}
    recorded = execute(folder, "", "done.ipynb", KESTREL_HEADLESS="approve", **keys)
    texts = ["".join(out["data"]["text/plain"]) for outs in recorded for out in outs if "data" in out]
    assert "cassette of Big" in texts[2], texts[2]
    assert (folder / "measured.txt").read_text() == "Oslo"

    # In the same folder, where everything is there already.
    assert execute(folder, "replay:", "again.ipynb") == recorded
    assert (folder / "notes.txt").read_text() == "from the agent and more"
    assert (folder / "measured.txt").read_text() == "Oslo"

    # Another folder on another day, another user, nobody there, no key: the same outputs.
    other = tmp_path_factory.mktemp("elsewhere")
    for name in ("service.py", "data", "talk.ipynb", "talk.jsonl", "done.ipynb"):
        (shutil.copytree if (folder / name).is_dir() else shutil.copy)(folder / name, other / name)
    (other / "off").mkdir()
    (other / "off" / "sitecustomize.py").write_text(NO_NETWORK.format(log=str(other / "reached.txt")))
    assert execute(other, "replay:", "again.ipynb", PYTHONPATH=str(other / "off")) == recorded
    words = ("pytest", "--nbval", "done.ipynb", "-q", "-p", "no:cacheprovider")
    done = run(other, "replay:", *words, PYTHONPATH=str(other / "off"))
    assert done.returncode == 0, done.stdout[-3000:]
    assert not (other / "measured.txt").exists()
    assert not (other / "reached.txt").exists()
    assert (other / "notes.txt").read_text() == "from the agent and more"

    for path in (folder / "talk.jsonl", folder / "done.ipynb", other / "again.ipynb"):
        assert KEY not in path.read_text("utf-8")
        assert str(folder) not in path.read_text("utf-8")
