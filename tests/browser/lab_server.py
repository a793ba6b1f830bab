"""A JupyterLab or Notebook 7 of its own: its folders, its port, its REST API, and its end."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

import nbformat
from harness import isolated_env, write_kernelspec

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """A running JupyterLab (``front`` is ``lab``) or Notebook 7 (``notebook``) and the folder that it serves."""

    front: str
    port: int
    token: str
    root: Path
    home: Path

    def url(self, path: str, query: str = "") -> str:
        """An address on this server, with the token."""
        return f"http://127.0.0.1:{self.port}/{path}?token={self.token}{query}"

    def page_url(self, name: str) -> str:
        """Where the notebook ``name`` opens."""
        return self.url(f"lab/tree/{name}", "&reset") if self.front == "lab" else self.url(f"notebooks/{name}")

    def api(self, path: str, method: str = "GET") -> Any:
        """A call of the REST API; its JSON, or None when the answer is empty."""
        request = urllib.request.Request(self.url(f"api/{path}"), method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            body = response.read()
        return json.loads(body) if body else None

    def end_kernels(self) -> None:
        """Shut down every kernel that pages have left."""
        for session in self.api("sessions"):
            self.api(f"sessions/{session['id']}", "DELETE")

    def write_notebook(self, name: str, cells: Sequence[str]) -> Path:
        """Write a notebook; a cell that starts with ``# md`` becomes Markdown. ``name`` may hold folders."""
        book = nbformat.v4.new_notebook()
        book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        for text in cells:
            markdown = text.startswith("# md")
            cell = nbformat.v4.new_markdown_cell(text[4:].strip()) if markdown else nbformat.v4.new_code_cell(text)
            book.cells.append(cell)
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(book, path)
        return path


@contextmanager
def running_server(front: str, home: Path) -> Iterator[Server]:
    """Start JupyterLab or Notebook 7 with folders of its own below ``home``, and end it with its kernels."""
    root = home / "notebooks"
    root.mkdir(parents=True)
    server = Server(front, free_port(), secrets.token_hex(16), root, home)
    write_kernelspec(home)
    app = "LabApp" if front == "lab" else "JupyterNotebookApp"
    command = [
        str(Path(sys.executable).parent / f"jupyter-{front}"),
        "--no-browser",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={server.port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={server.token}",
        f"--ServerApp.root_dir={root}",
        f"--{app}.expose_app_in_browser=True",
        *(["--allow-root"] if os.geteuid() == 0 else []),
    ]
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=isolated_env(home), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_until_up(server, process)
            yield server
            server.end_kernels()
        finally:
            process.terminate()
            process.wait(timeout=20)


def wait_until_up(server: Server, process: subprocess.Popen[bytes], limit: float = 60) -> None:
    """Wait for the first answer of the server; its log is the message when it does not come."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline and process.poll() is None:
        try:
            server.api("status")
            return
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise AssertionError(f"the {server.front} server did not come up:\n{(server.home / 'server.log').read_text()}")


@contextmanager
def copied_notebooks(server: Server, name: str) -> Iterator[Path]:
    """The folder ``name`` of the server with the notebooks of the repository in it; gone at the end."""
    folder = server.root / name
    shutil.copytree(NOTEBOOKS, folder, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    yield folder
    shutil.rmtree(folder)
