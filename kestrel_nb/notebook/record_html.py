"""The HTML of a record. Every value goes through ``escape_text``; there is no script, button, id or event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import shown
from .rendering import escape_attribute, escape_text, markdown_html
from .sheet import record_sheet
from .view_state import Block, ViewState
from .words import (
    SENT_COLUMNS,
    SENT_TEXT,
    STATE_WORDS,
    Sentence,
    decision_of,
    error_of,
    facts,
    left_out,
    sent_rest,
    sent_rows,
    sent_title,
    sent_values,
    sent_whole,
    status_mark,
    status_word,
    todo_title,
    todo_words,
)

if TYPE_CHECKING:
    from .figures import Figure
    from .shown import Caps
    from .tables import Table

# MathJax of each generation leaves elements of these classes alone.
_ROOT = "kestrel-view kestrel-run kestrel-record mathjax_ignore tex2jax_ignore"


def html_form(state: ViewState, caps: Caps) -> tuple[str, int]:
    """The HTML, and how many bytes of it are image data."""
    writer = _Writer(state, caps)
    body = writer.body()
    return f"<style>{record_sheet(body)}</style>\n{body}", writer.image_bytes


class _Writer:
    def __init__(self, state: ViewState, caps: Caps) -> None:
        self._state, self._caps = state, caps
        self._scrub = shown.Scrub(state)
        self.image_bytes = 0

    def body(self) -> str:
        state = self._state
        blocks, dropped = shown.blocks_of(state, self._caps)
        parts = [self._header(), *(self._block(block) for block in blocks)]
        if dropped:
            parts.append(f'<p class="kestrel-message">{left_out(dropped, "row")} to keep the record small.</p>')
        parts += [self.sentence(sentence) for sentence in error_of(state)]
        mark = status_mark(state)
        return f'<div class="{_ROOT}" data-state="{mark}">\n' + "\n".join(filter(None, parts)) + "\n</div>"

    def text(self, value: str) -> str:
        return escape_text(self._scrub(value))

    def sentence(self, sentence: Sentence, tag: str = "p", name: str = "kestrel-message") -> str:
        inner = "".join(
            f"<{kind}>{self.text(text)}</{kind}>" if kind in ("b", "code") else self.text(text)
            for kind, text in sentence
        )
        return f'<{tag} class="{name}">{inner}</{tag}>'

    def _header(self) -> str:
        state = self._state
        mark, word = status_mark(state), status_word(state)
        rest = "".join(f" · {self.text(fact)}" for fact in facts(state))
        return (
            f'<div class="kestrel-header">{_mark(mark)}<strong class="kestrel-state">{word}</strong>'
            f'<span class="kestrel-facts">{rest}</span></div>'
        )

    def _block(self, block: Block) -> str:
        kind = block["kind"]
        if kind == "text":
            return self._text(block)
        if kind == "tool":
            return self._tool(block)
        if kind == "todo":
            return self._todo(block["items"])
        if kind == "sent":
            return self._sent(block["rows"])
        level = escape_attribute(block["level"])
        return f'<div class="kestrel-notice" data-level="{level}"><p>{self.text(block["text"])}</p></div>'

    def _text(self, block: Block) -> str:
        text, left = shown.text_of(block, self._caps)
        more = f'<p class="kestrel-label">{left_out(left, "character")} here.</p>' if left else ""
        inner = markdown_html(self._scrub(text)).strip()
        return f'<div class="kestrel-text">{inner}{more}</div>' if inner or more else ""

    # ---- a call ----

    def _tool(self, row: Block) -> str:
        table = row["table"]
        rows = shown.table_rows(table, self._caps) if table is not None else []
        detail = self._detail(row, rows)
        summary = self._summary(row)
        mark = row["state"]
        if detail:
            is_open = " open" if shown.opens(row, len(rows)) else ""
            row_html = (
                f'<details class="kestrel-tool" data-state="{mark}"{is_open}><summary class="kestrel-row">{summary}'
                f'</summary>\n<div class="kestrel-detail">{detail}</div></details>'
            )
        else:
            row_html = f'<div class="kestrel-tool" data-state="{mark}"><div class="kestrel-row">{summary}</div></div>'
        decision = decision_of(self._state, row)
        return row_html if decision is None else f"{row_html}\n{self.sentence(decision)}"

    def _summary(self, row: Block) -> str:
        result, time = shown.row_words(self._state, row)
        parts = [_mark(row["state"]), f'<strong class="kestrel-name">{self.text(row["tool"])}</strong>']
        if row["line"]:
            parts.append(
                f'<span class="kestrel-sep"> </span><code class="kestrel-args">{self.text(row["line"])}</code>'
            )
        for name, value in (("result", self.text(result)), ("word", STATE_WORDS[row["state"]]), ("time", time)):
            if value:
                parts.append(f'<span class="kestrel-sep"> · </span><span class="kestrel-{name}">{value}</span>')
        return "".join(parts)

    def _detail(self, row: Block, rows: list[list[str | None]]) -> str:
        parts = []
        arguments, more = shown.arguments_of(self._state, row, self._caps.arguments, self._caps.code)
        parts += [self._pre(arguments, "" if row["code"] else " kestrel-wrap"), _label(more)]
        parts.append(self._diff(row))
        parts += [self._figure(image, i, words, row) for i, (image, words) in enumerate(_figures(row), 1)]
        parts.append(_label(shown.more_images(row)))
        text, rest = shown.detail_of(row, self._caps, self._scrub)
        if not (row["diff"] and row["state"] == "done"):
            parts.append(self._pre(text, " kestrel-wrap" if row["detail_kind"] == "error" else ""))
        parts.append(_label(rest))
        if row["table"] is not None and row["table"]["rows"]:
            parts.append(self._table(row, rows))
        return "".join([*parts, _label(shown.note_of(row))])

    def _pre(self, text: str, name: str) -> str:
        return f'<pre class="kestrel-pre{name}">{self.text(text)}</pre>' if text else ""

    def _diff(self, row: Block) -> str:
        lines, rest = shown.diff_of(self._state, row, self._caps)
        drawn = [
            f'<span{_diff_class(line)} data-n="{escape_attribute(number)}">{self.text(line)}\n</span>'
            for line, number in lines
        ]
        if not drawn:
            return ""
        return f'<pre class="kestrel-pre kestrel-diff"><code>{"".join(drawn)}</code></pre>{_label(rest)}'

    def _figure(self, image: Figure, number: int, words: str, row: Block) -> str:
        drawing = ""
        if "data" in image:
            self.image_bytes += len(image["data"])
            width, height = image["box"]
            size = f' width="{width}" height="{height}"' if width else ""
            alt = escape_attribute(f"Figure {number} of {row['tool']}")
            drawing = f'<img{size} alt="{alt}" src="data:{escape_attribute(image["type"])};base64,{image["data"]}">'
        return f'<figure class="kestrel-figure">{drawing}<figcaption>{words}</figcaption></figure>'

    def _table(self, row: Block, rows: list[list[str | None]]) -> str:
        table: Table = row["table"]
        frame = f"<code>{self.text(shown.frame_of(self._state, row))}</code>"
        foot = (
            f'<div class="kestrel-tablefoot"><span>{escape_text(shown.table_foot(table, len(rows)))}</span>'
            f'<span class="kestrel-sep"> · </span><span>{frame}</span></div>'
        )
        if not rows:
            return foot
        left, head_left = _sides(table["text_columns"]), _sides(table["head_text"])
        corner = zip(table["head_names"], head_left, strict=True)
        names = "".join(f"<th{cls}>{self.text(name)}</th>" if name else "<td></td>" for name, cls in corner)
        names += "".join(f"<th{cls}>{self.text(name)}</th>" for name, cls in zip(table["columns"], left, strict=True))
        body = "".join(
            f"<tr>{self._cells(head, head_left, 'th')}{self._cells(cells, left)}</tr>"
            for head, cells in zip(shown.heads_of(table, len(rows)), rows, strict=True)
        )
        return (
            '<div class="kestrel-scroll"><table class="kestrel-table" border="1" cellpadding="4"><thead><tr>'
            f"{names}</tr></thead><tbody>{body}</tbody></table></div>{foot}"
        )

    def _cells(self, values: list[str | None], sides: list[str], tag: str = "td") -> str:
        return "".join(f"<{tag}{side}>{self._cell(value)}</{tag}>" for value, side in zip(values, sides, strict=False))

    def _cell(self, value: str | None) -> str:
        if value is None:
            return '<span class="kestrel-null">&lt;NA&gt;</span>'
        return f"<code>{self.text(value)}</code>" if value[:1] == " " else self.text(value)

    # ---- small parts ----

    def _todo(self, items: list[dict[str, Any]]) -> str:
        lines = []
        for item in items:
            mark, word = todo_words(self._state, item)
            lines.append(
                f'<li data-state="{mark}">{_mark(mark)}<span>{self.text(item["text"])}</span>'
                f'<span class="kestrel-sep">, </span><span class="kestrel-word">{word}</span></li>'
            )
        return f'<div class="kestrel-todo"><p>{todo_title(items)}</p><ul>{"".join(lines)}</ul></div>'

    def _sent(self, rows: list[dict[str, Any]]) -> str:
        sides = _sides(SENT_TEXT)
        head = "".join(f"<th{side}>{name}</th>" for name, side in zip(SENT_COLUMNS, sides, strict=True))
        body = "".join(f"<tr>{self._cells(list(row), sides)}</tr>" for row in sent_rows(rows))
        is_open = " open" if sent_values(rows) > 1 else ""
        return (
            f'<details class="kestrel-fold"{is_open}><summary>{sent_title(rows)}</summary><div class="kestrel-detail">'
            '<div class="kestrel-scroll"><table class="kestrel-table" border="1" cellpadding="4"><thead>'
            f"<tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{_label(sent_rest(rows))}"
            f"{self.sentence(sent_whole(self._state), name='kestrel-label')}</div></details>"
        )


def _sides(text: list[bool]) -> list[str]:
    return [' class="kestrel-t"' if flag else "" for flag in text]


def _mark(state: str) -> str:
    return f'<span class="kestrel-mark" data-state="{state}"></span>'


def _label(text: str) -> str:
    return f'<p class="kestrel-label">{escape_text(text)}</p>' if text else ""


def _figures(row: Block) -> list[tuple[Figure, str]]:
    return list(zip(row["images"], shown.image_words(row), strict=True))


def _diff_class(line: str) -> str:
    if line.startswith("@@"):
        return ' class="kestrel-hunk"'
    if line.startswith(("+++", "---")):
        return ' class="kestrel-hunk"'
    kind = {"+": "add", "-": "del"}.get(line[:1])
    return f' class="kestrel-{kind}"' if kind else ""
