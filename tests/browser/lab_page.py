"""JupyterLab or Notebook 7 as a person uses it: a server of its own, and a notebook on a page of real Chromium."""

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError

import nbformat
from harness import isolated_env, write_kernelspec
from playwright.sync_api import Browser, Locator, Page

CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "/usr/bin/chromium")
FLAGS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
READY = """() => {
  const panel = window.jupyterapp?.shell?.currentWidget;
  const kernel = panel?.sessionContext?.session?.kernel;
  return !!panel?.content?.widgets?.length && kernel?.status === "idle" && kernel?.connectionStatus === "connected";
}"""
PANEL = "window.jupyterapp.shell.currentWidget"


def find_chromium() -> str | None:
    """The path of a Chromium on this machine: $CHROMIUM, or the first usual name that exists."""
    wanted = [os.environ["CHROMIUM"]] if os.environ.get("CHROMIUM") else CANDIDATES
    return next((path for name in wanted if (path := shutil.which(name))), None)


def chromium_flags() -> list[str]:
    """Flags for a quiet Chromium; root cannot use the sandbox of the browser."""
    return [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS


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


@dataclass
class NotebookPage:
    """One notebook open on one page. Cells count from 0, Markdown cells included."""

    server: Server
    name: str
    page: Page
    shots: Path
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, *, wait: bool = True) -> "NotebookPage":
        """Load the page and wait until its kernel is ready."""
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(self.server.page_url(self.name))
        if wait:
            self.wait_ready()
        self.errors.clear()  # what the front end itself did while it came up is not ours
        return self

    def reload(self) -> None:
        """Reload the page, as F5 does. The kernel may be busy, so only the cells are waited for."""
        self.page.reload()
        self.wait_cells()

    def wait_cells(self) -> None:
        """Wait until cells are drawn and the kernel is connected, busy or not."""
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
        self.page.wait_for_function(READY.replace('kernel?.status === "idle"', "!!kernel"), timeout=60_000)

    def wait_ready(self) -> None:
        """Wait until cells are drawn and the kernel is idle and connected; before that a dialog may race."""
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
        self.page.wait_for_function(READY, timeout=60_000)

    # -- commands ---------------------------------------------------------------------------

    def command(self, name: str) -> None:
        """Start a command of the application and do not wait for it."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name); }", name)

    def run_all(self) -> None:
        """Run All Cells."""
        self.command("notebook:run-all-cells")

    def run(self, index: int) -> None:
        """Select a cell and run it."""
        self.page.evaluate(f"i => {{ {PANEL}.content.activeCellIndex = i; {PANEL}.content.deselectAll(); }}", index)
        self.command("notebook:run-cell")

    def interrupt(self) -> None:
        """The Interrupt button."""
        self.command("notebook:interrupt-kernel")

    def restart(self) -> None:
        """Restart the kernel without the question that the menu asks, and wait until it is idle."""
        self.page.evaluate(f"() => {PANEL}.sessionContext.session.kernel.restart()")
        self.page.wait_for_function(READY, timeout=60_000)

    def save(self) -> dict[str, Any]:
        """Save the notebook and return the file's content."""
        self.page.evaluate(f"() => {PANEL}.context.save()")
        book: dict[str, Any] = json.loads((self.server.root / self.name).read_text(encoding="utf-8"))
        return book

    # -- what is seen -----------------------------------------------------------------------

    def cell(self, index: int) -> Locator:
        """A cell."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        """The output area of a cell."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def text(self, index: int) -> str:
        """The visible text of a cell's output."""
        area = self.output(index)
        return area.inner_text() if area.count() else ""

    def prompt(self, index: int) -> str:
        """The prompt without its brackets: a number, ``*`` while it runs or waits, or nothing."""
        return re.sub(r"[\[\]:\s]", "", self.cell(index).locator(".jp-InputArea-prompt").first.inner_text())

    def wait_text(self, index: int, text: str, timeout: float = 30) -> None:
        """Wait until a cell's output shows ``text``."""
        self.output(index).get_by_text(text).first.wait_for(timeout=timeout * 1000)

    def wait_done(self, *indexes: int, timeout: float = 30) -> None:
        """Wait until these cells have run: each has a number for a prompt."""
        deadline = time.monotonic() + timeout
        while not all(self.prompt(index).isdigit() for index in indexes):
            assert time.monotonic() < deadline, f"prompts: {[self.prompt(i) for i in indexes]}; {self.text(indexes[0])}"
            self.page.wait_for_timeout(50)

    def button(self, index: int, name: str) -> Locator:
        """A button in a cell's output, by its exact text."""
        return self.output(index).get_by_role("button", name=name, exact=True)

    def shot(self, name: str) -> Path:
        """Take a picture of the page; where it lies."""
        self.shots.mkdir(parents=True, exist_ok=True)
        path = self.shots / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def strangers(self) -> list[str]:
        """Requests that left this machine."""
        own = f"127.0.0.1:{self.server.port}"
        return [url for url in self.requests if not url.startswith(("data:", "blob:")) and url.split("/")[2] != own]


def new_page(browser: Browser, server: Server, name: str, shots: Path, *, dark: bool = False) -> NotebookPage:
    """A notebook on a page with storage of its own, not opened yet."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme="dark" if dark else "light")
    return NotebookPage(server, name, context.new_page(), shots)


Open = Callable[..., NotebookPage]  # the fixture open_pages, or open_lab
