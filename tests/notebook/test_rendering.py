"""Hostile text in every place of a record: nothing acts, nothing hides, nothing is fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from active_content import HIDDEN, active, shown
from markdown_it import MarkdownIt
from sample_events import call, make, play, ran, request, said, started

from kestrel_nb.notebook.record import render
from kestrel_nb.notebook.rendering import escape_text, markdown_html, sealed_length
from kestrel_nb.notebook.safe_markdown import code_span, escape_markdown, fence, markdown_safe
from kestrel_nb.notebook.wire import page_state
from kestrel_nb.protocol import events as ev
from kestrel_nb.protocol.tools import TextPreview

DATA = Path(__file__).parent.parent / "data"


def rows(theme: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / theme / f"{theme}.jsonl").read_text("utf-8").splitlines()]


RENDER, NAUGHTY = rows("render"), rows("naughty")
EXCLUDED = json.loads((DATA / "render" / "excluded.json").read_text("utf-8"))


def values(row: dict[str, Any]) -> tuple[str, Any]:
    """The text of a row, and its data; a generated one is made here."""
    given = row["input"]
    if given.get("data_gen") == "one cell of 50 MB":
        return "", [{"cell": "x" * 50_000_000}]
    if given.get("text_gen") == "'x'*10**8":
        return "x" * 10**8, None
    keys = ("text", "tool_name", "error_message", "attr_context")
    text = next((given[key] for key in keys if key in given), None)
    assert text is not None or "data" in given
    return text or "", given.get("data")


def bundle_with(text: str, data: Any) -> dict[str, str]:
    """A record with ``text`` in every place that a model, a tool or a file can fill."""
    head = text[:200_000]
    events = [
        *started(head),
        *said(text),
        *said(f"- {head}\n- x\n\n> {head}\n\n## {head}\n\n| a |\n|-|\n| {head} |\n\n[{head}](http://x.test/)", "m2"),
        *call(head, {head[:50] or "a": head, "b": [head]}, "c1"),
        *ran(head, text, data if data is not None else [{head[:99]: head, "s": [head]}], "c1"),
        *call("t", {"x": head}, "c2"),
        make(ev.ToolFailed, call_id="c2", tool="t", error=head),
        make(ev.ToolSkipped, call_id="c3", tool=head, reason=head, cause="denied"),
        make(ev.Notice, level="warning", code=head, text=head),
        *asked_and_declined(head),
        make(ev.RunFailed, code=head, message=head),
    ]
    state = play(events)
    wire = json.dumps(page_state(state), allow_nan=False, ensure_ascii=False)
    assert len(wire.encode("utf-8")) < 2**20
    return render(state)


def asked_and_declined(text: str) -> list[ev.SessionEvent]:
    from sample_events import answered, asked

    asking = request("t", {"v": text}, TextPreview(title=text, text=text), "c4")
    return [*asked(asking), *answered(asking, "button", approved=False, reason=text)]


def check(bundle: dict[str, str]) -> None:
    assert set(bundle) == {"text/html", "text/markdown", "text/plain"}
    assert active(bundle["text/html"]) == []
    assert sum(len(text.encode("utf-8")) for text in bundle.values()) <= 256_000
    raw_host = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    found = [
        what
        for what in active(raw_host.render(bundle["text/markdown"]))
        if not what.startswith(("TeX", "td style", "th style", "code class"))
    ]
    assert found == []
    assert not HIDDEN.search(bundle["text/markdown"])
    assert not HIDDEN.search(bundle["text/plain"])


@pytest.mark.parametrize("row", [row for row in RENDER if row["id"] not in EXCLUDED], ids=lambda row: row["id"])
def test_a_hostile_text_is_inert(row: dict[str, Any]) -> None:
    check(bundle_with(*values(row)))


@pytest.mark.parametrize("row", NAUGHTY, ids=lambda row: row["id"])
def test_a_naughty_string_is_inert(row: dict[str, Any]) -> None:
    check(bundle_with(row["input"]["text"], None))


def test_every_row_of_the_corpora_is_run() -> None:
    assert set(EXCLUDED) <= {row["id"] for row in RENDER}
    assert len(RENDER) == 146
    assert len(NAUGHTY) == 255


def test_markdown_keeps_its_form() -> None:
    html = markdown_html(
        "# Head\n\n*a* **b** ~~c~~ `d` [e](https://e.test/?a=1&b=2)\n\n1. x\n\n```py\n<f>\n```\n\n|g|h|\n|-|-:|\n|1|2|"
    )
    assert '<p class="kestrel-heading"><strong>Head</strong></p>' in html
    assert "<em>a</em> <strong>b</strong> <s>c</s> <code>d</code>" in html
    assert '<a href="https://e.test/?a=1&amp;b=2"' in html
    assert '<pre class="kestrel-pre"><code>&lt;f&gt;' in html
    assert '<td class="kestrel-t">1</td>\n<td>2</td>' in html


def test_images_and_other_schemes_become_text() -> None:
    html = markdown_html(
        "![a](http://evil.test/x.png) [b](javascript:alert(1)) [c](../api) [d](command:x) [e](//evil.test)"
    )
    assert "<img" not in html
    assert "<a" not in html
    assert "a (http://evil.test/x.png)" in html
    assert "c (../api)" in html


def test_hidden_characters_are_spelled_out() -> None:
    assert escape_text("a\u202eb\x1b[8m\u200b\U000e0041") == (
        "a<mark>[U+202E]</mark>b<mark>[ESC]</mark>[8m<mark>[U+200B]</mark><mark>[U+E0041]</mark>"
    )
    assert "[U+202E]" in markdown_html("`a\u202eb`")


@pytest.mark.parametrize("text", ["👩‍💻 ❤️ 1️⃣", "می‌خواهم", "क्‍ष", "naïve café", "日本語"])
def test_ordinary_writing_stays_as_it_is(text: str) -> None:
    assert escape_text(text) == text


def test_tex_has_no_two_delimiters_in_one_text() -> None:
    html = markdown_html("cost $5 and $6, \\(x\\), $$y$$, `$z$`")
    assert active(html) == []
    assert shown(html).strip() == "cost $5 and $6, (x), $$y$$, $z$"


def test_deep_nesting_is_text() -> None:
    assert active(markdown_html(">" * 5_000 + "x")) == []
    assert active(markdown_html("[" * 20_000)) == []
    assert markdown_safe("- " * 3_000 + "x")


def test_code_is_never_left() -> None:
    assert fence("a\n````\nb").startswith("`````text\n")
    assert code_span("`a``") == "``` `a`` ```"
    assert "<" not in escape_markdown("<b>|$x$[y](z)")


def test_the_sealed_part_ends_with_a_block() -> None:
    text = "One.\n\nTwo\n"
    assert text[: sealed_length(text)] == "One.\n\n"
    assert sealed_length("```\na\n\nb\n") == 0
    assert sealed_length("- a\n\n- b\n") == 0
