"""The record of a run: a pure function from its view state to what stays in the notebook.

Three forms of one text, nothing active in any of them. The bundle has at most ``LIMIT`` bytes beside images: tables
are cut first, then text results, then the text of the model; decisions never.
"""

from __future__ import annotations

from .record_html import html_form
from .record_text import markdown_form, plain_form
from .shown import Caps
from .view_state import ViewState

LIMIT = 256_000  # bytes of the three forms together, images aside


_LEVELS = (
    Caps(),
    Caps(rows=5),
    Caps(rows=0),
    Caps(rows=0, lines=10, detail=1_000, diff=40, arguments=1_000),
    Caps(rows=0, lines=0, detail=0, diff=10, arguments=200, code=20),
    Caps(rows=0, lines=0, detail=0, diff=0, arguments=0, code=0, text=20_000),
    Caps(rows=0, lines=0, detail=0, diff=0, arguments=0, code=0, text=2_000, blocks=400),
    Caps(rows=0, lines=0, detail=0, diff=0, arguments=0, code=0, text=200, blocks=40),
)


def render(state: ViewState) -> dict[str, str]:
    """The MIME bundle of ``state``: exactly text/html, text/markdown and text/plain."""
    bundle: dict[str, str] = {}
    for caps in _LEVELS:
        html, image_bytes = html_form(state, caps)
        bundle = {"text/html": html, "text/markdown": markdown_form(state, caps), "text/plain": plain_form(state, caps)}
        if sum(len(text.encode("utf-8", "replace")) for text in bundle.values()) - image_bytes <= LIMIT:
            break
    return bundle
