"""The record as Markdown and as plain text: the same lines, without style."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from . import safe_markdown as md
from . import shown
from .view_state import Block, ViewState
from .visible import visible
from .words import (
    STATE_WORDS,
    Sentence,
    decision_of,
    error_of,
    facts,
    left_out,
    sent_rest,
    sent_rows,
    sent_title,
    sent_whole,
    status_word,
    todo_title,
    todo_words,
)

if TYPE_CHECKING:
    from .shown import Caps


class _Form(ABC):
    """Writes one form; ``_Markdown`` and ``_Plain`` differ only in how a piece of text is put down."""

    between = "\n\n"

    def __init__(self, state: ViewState, caps: Caps) -> None:
        self._state, self._caps = state, caps
        self._scrub = shown.Scrub(state)

    @abstractmethod
    def bold(self, text: str) -> str:
        """Strong text."""

    @abstractmethod
    def code(self, text: str) -> str:
        """Code within a line."""

    @abstractmethod
    def words(self, text: str) -> str:
        """Plain words."""

    @abstractmethod
    def prose(self, text: str) -> str:
        """Text of the model."""

    @abstractmethod
    def block(self, text: str) -> str:
        """Lines as they are."""

    @abstractmethod
    def table(self, columns: list[str], right: list[bool], rows: list[list[str]]) -> str:
        """A table; ``right`` says which columns align right."""

    def write(self) -> str:
        """The whole form."""
        state = self._state
        blocks, dropped = shown.blocks_of(state, self._caps)
        parts = [" · ".join([self.bold(status_word(state)), *(self.words(self._scrub(f)) for f in facts(state))])]
        for block in blocks:
            parts += self._block(block)
        if dropped:
            parts.append(f"{left_out(dropped, 'row')} to keep the record small.")
        parts += [self._sentence(sentence) for sentence in error_of(state)]
        return self.between.join(filter(None, parts))

    def _sentence(self, sentence: Sentence) -> str:
        write = {"b": self.bold, "code": self.code, "": self.words}
        return "".join(write[kind](self._scrub(text)) for kind, text in sentence)

    def _block(self, block: Block) -> list[str]:
        kind = block["kind"]
        if kind == "text":
            text, left = shown.text_of(block, self._caps)
            more = [f"{left_out(left, 'character')} here."] if left else []
            return [self.prose(self._scrub(text)), *more]
        if kind == "tool":
            return self._tool(block)
        if kind == "todo":
            return [self.words(todo_title(block["items"])), self._items(block["items"])]
        if kind == "sent":
            return [self.words(sent_title(block["rows"])), self._sent(block["rows"])]
        return [self.words(self._scrub(block["text"]))]

    def _items(self, items: list[dict[str, Any]]) -> str:
        return "\n".join(f"- {self.words(self._scrub(i['text']))}, {todo_words(self._state, i)[1]}" for i in items)

    def _sent(self, rows: list[dict[str, Any]]) -> str:
        lines = []
        for variable, kind, disclosed, values, size in sent_rows(rows):
            cells = "no cell values" if values == "none" else f"{values} cell {'value' if values == '1' else 'values'}"
            rest = "; ".join(filter(None, [kind, disclosed, f"{cells}, {size} character{'' if size == '1' else 's'}"]))
            lines.append(f"- {self.code(self._scrub(variable))}: {self.words(self._scrub(rest))}")
        text = "\n".join([*lines, *filter(None, [sent_rest(rows)])])
        return f"{text}{self.between}{self._sentence(sent_whole(self._state))}"

    def _tool(self, row: Block) -> list[str]:
        result, time = shown.row_words(self._state, row)
        line = " ".join(filter(None, [self.bold(self._scrub(row["tool"])), self.code(self._scrub(row["line"]))]))
        words = [self.words(self._scrub(result)), STATE_WORDS[row["state"]], time]
        parts = [" · ".join(filter(None, [line, *words])), *self._detail(row)]
        decision = decision_of(self._state, row)
        return parts if decision is None else [*parts, self._sentence(decision)]

    def _detail(self, row: Block) -> list[str]:
        parts = []
        arguments, more = shown.arguments_of(self._state, row, self._caps.arguments, self._caps.code)
        if arguments:
            parts += [self.block(self._scrub(arguments)), self.words(more)]
        lines, more = shown.diff_of(self._state, row, self._caps)
        if lines:
            parts += [self.block(self._scrub("\n".join(line for line, _ in lines))), self.words(more)]
        parts += [self.words(words) for words in (*shown.image_words(row), shown.more_images(row))]
        text, rest = shown.detail_of(row, self._caps, self._scrub)
        if text and not (row["diff"] and row["state"] == "done"):
            parts.append(self.block(text))
        return [*parts, rest, *self._table(row), shown.note_of(row)]

    def _table(self, row: Block) -> list[str]:
        table = row["table"]
        if table is None or not table["rows"]:
            return []
        rows = shown.table_rows(table, self._caps)
        right = [not flag for flag in (*table["head_text"], *table["text_columns"])]
        lines = [
            ["<NA>" if cell is None else self._scrub(cell) for cell in (*head, *cells)]
            for head, cells in zip(shown.heads_of(table, len(rows)), rows, strict=True)
        ]
        drawn = [self.table([*table["head_names"], *table["columns"]], right, lines)] if rows else []
        foot = self.words(shown.table_foot(table, len(rows)))
        return [*drawn, f"{foot} · {self.code(shown.frame_of(self._state, row))}"]


class _Markdown(_Form):
    def bold(self, text: str) -> str:
        return f"**{md.escape_markdown(text)}**" if text else ""

    def code(self, text: str) -> str:
        return md.code_span(text)

    def words(self, text: str) -> str:
        return md.escape_markdown(text)

    def prose(self, text: str) -> str:
        return md.markdown_safe(text)

    def block(self, text: str) -> str:
        return md.fence(text)

    def table(self, columns: list[str], right: list[bool], rows: list[list[str]]) -> str:
        return md.table(columns, right, rows)


class _Plain(_Form):
    between = "\n"

    def bold(self, text: str) -> str:
        return visible(text)

    code = words = bold

    def prose(self, text: str) -> str:
        return visible(text).strip("\n")

    def block(self, text: str) -> str:
        return "\n".join(f"    {line}" for line in visible(text).rstrip("\n").split("\n"))

    def table(self, columns: list[str], right: list[bool], rows: list[list[str]]) -> str:
        lines = [columns, *rows]
        width = [max(len(line[i]) for line in lines) for i in range(len(columns))]
        return "\n".join(
            "    "
            + "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, width, right, strict=True)).rstrip()
            for line in lines
        )


def markdown_form(state: ViewState, caps: Caps) -> str:
    """The record as Markdown that is safe in any host."""
    return _Markdown(state, caps).write()


def plain_form(state: ViewState, caps: Caps) -> str:
    """The record as plain text."""
    return _Plain(state, caps).write()
