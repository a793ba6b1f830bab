"""A notebook of JupyterLab or Notebook 7 as a person uses it, on a page of real Chromium."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab_server import Server
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

    def use_theme(self, look: str) -> None:
        """Switch to the theme "light" or "dark" of JupyterLab, and wait for it."""
        script = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
        self.page.evaluate(script, f"JupyterLab {look.title()}")

    def tidy(self) -> None:
        """Put away what is not the notebook, so that a picture shows the run."""
        self.page.add_style_tag(content=".jp-toast-container, .Toastify { display: none }")
        self.page.evaluate("window.jupyterapp.shell.collapseLeft()")
        self.page.wait_for_timeout(300)

    def scroll_to(self, index: int, place: str = "start") -> None:
        """Bring a cell into sight, as only those are drawn."""
        self.page.evaluate(f"([i, place]) => {PANEL}.content.scrollToItem(i, place)", [index, place])

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

    def show(self, index: int, what: str) -> Locator:
        """Bring a cell into sight and wait until its output has ``what``."""
        found = self.output(index).locator(what).first
        for _ in range(30):
            self.scroll_to(index)
            self.page.wait_for_timeout(500)
            if found.is_visible():
                return found
            self.page.wait_for_timeout(1_500)
        raise AssertionError(f"cell {index} has no {what}: {self.text(index)}; {self.errors}")

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
