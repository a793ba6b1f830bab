"""A bare page with run_view.js and a stand-in for the front end's half of a widget model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kestrel_nb.notebook
from kestrel_nb.notebook.sheet import live_sheet
from kestrel_nb.notebook.view_state import ViewState
from kestrel_nb.notebook.wire import page_state

SCRIPT = Path(kestrel_nb.notebook.__file__).with_name("run_view.js")
ADDRESS = "http://page.test/"
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
CHROMIUM += ["--disable-component-update", "--disable-sync"]
TOKENS = """
:root {
  --jp-ui-font-color0: #000; --jp-ui-font-color1: rgba(0,0,0,.87); --jp-layout-color0: white;
  --jp-layout-color1: white; --jp-border-color1: #bdbdbd; --jp-border-color2: #e0e0e0;
  --jp-brand-color1: #1976d2; --jp-success-color1: #388e3c; --jp-error-color1: #d32f2f;
  --jp-warn-color1: #f57c00; --jp-content-link-color: #0d47a1; --jp-ui-font-size1: 13px;
  --jp-content-font-size1: 14px; --jp-ui-font-family: "Liberation Sans", sans-serif;
  --jp-code-font-family: "DejaVu Sans Mono", monospace;
}
body { margin: 0; padding: 16px; width: 836px; background: white; }
"""
MODEL = """
window.Model = class {
  constructor(values) { this.values = values; this.listeners = new Map(); this.sent = []; this.broken = false; }
  get(name) { return this.values[name]; }
  on(name, f) { if (!this.listeners.has(name)) this.listeners.set(name, new Set()); this.listeners.get(name).add(f); }
  off(name, f) { this.listeners.get(name)?.delete(f); }
  fire(name, value) { for (const f of [...(this.listeners.get(name) || [])]) f(value); }
  set(name, value) { this.values[name] = value; this.fire(`change:${name}`); }
  send(message) { if (this.broken) throw new Error("Cannot send"); this.sent.push(message); }
  count() { return [...this.listeners.values()].reduce((n, set) => n + set.size, 0); }
};
"""


class FakePage:
    """``open`` makes a model with a state; ``mount`` draws it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.alerts: list[str] = []
        page.route("**/*", self._serve)
        page.on("dialog", lambda dialog: (self.alerts.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: self.alerts.append(str(error)))
        page.goto(ADDRESS)

    def _serve(self, route: Any) -> None:
        if route.request.url == ADDRESS:
            source = SCRIPT.read_text("utf-8").replace("export default", "window.kestrel =")
            body = (
                f"<!doctype html><html><head><meta charset=utf-8><style>{TOKENS}{live_sheet()}</style></head><body>"
                f"<input id=elsewhere><div id=out></div>"
                f"<script>{MODEL}</script><script type=module>{source}</script></body></html>"
            )
            route.fulfill(status=200, content_type="text/html", body=body)
        elif route.request.url.endswith("/favicon.ico"):
            route.abort()
        else:
            self.requests.append(route.request.url)
            route.abort()

    def open(self, state: ViewState, key: str = "k1", **more: Any) -> None:
        self.page.wait_for_function("window.kestrel")
        values = {"page": page_state(state), "key": key, "final": "", **more}
        self.page.evaluate(
            "values => { window.model = new Model(values); window.quit = kestrel.initialize({model}); }", values
        )

    def mount(self) -> None:
        self.page.evaluate("() => { window.unmount = kestrel.render({model, el: document.getElementById('out')}); }")

    def show(self, state: ViewState) -> None:
        """A checkpoint with ``state``."""
        self.page.evaluate("page => model.set('page', page)", page_state(state))

    def message(self, content: dict[str, Any]) -> None:
        self.page.evaluate("content => model.fire('msg:custom', content)", content)

    def sent(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.page.evaluate("() => model.sent") if message["type"] == kind]
