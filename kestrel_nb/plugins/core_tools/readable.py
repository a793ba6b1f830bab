"""Web pages as Markdown, made in a child process: a page is a stranger's, and some take for ever to convert."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...protocol.errors import MissingExtraError, ToolCallError
from ...sandbox.child import ChildDied, ChildTimeout, run_child

WORKER = Path(__file__).with_name("readable_worker.py")
CONVERT_S = 15.0  # measured: 0.8 s for a page of a megabyte, on a busy machine twice that
MEMORY_BYTES = 2_000_000_000
MAX_ANSWER_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class Readable:
    """A page's title, "" when it has none, and its text as Markdown."""

    title: str
    text: str


def require_converter() -> Path:
    """The folder that the HTML converter is in. Raises MissingExtraError when it is not installed."""
    found = find_spec("html_to_markdown")
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(
            'web pages need a converter that is not installed; run: pip install "kestrel-nb[web]" '
            '(other kinds of text need nothing, and format "source" gives the HTML itself)'
        )
    return Path(found.submodule_search_locations[0]).parent


async def readable(
    html: str, url: str, *, xml: bool = False, stop: Callable[[], Awaitable[Any]] | None = None
) -> Readable:
    """The page ``html`` of the address ``url`` without scripts, navigation and what a browser would not show.

    ``xml`` says that it is XHTML. Links are absolute. A page that is nested too deeply for Markdown comes as lines of
    text. What a style sheet hides is not known here. Raises MissingExtraError, and ToolCallError when the page can't
    be converted in time.
    """
    order = {"library": str(require_converter()), "html": html, "url": url, "xml": xml}
    try:
        page = await run_child(
            WORKER, order, timeout_s=CONVERT_S, memory_bytes=MEMORY_BYTES, max_bytes=MAX_ANSWER_BYTES, stop=stop
        )
    except (ChildDied, ChildTimeout) as error:
        raise ToolCallError(
            f'the HTML of {url} could not be converted ({error}); format "source" gives it as it is'
        ) from None
    return Readable(page["title"], page["text"])
