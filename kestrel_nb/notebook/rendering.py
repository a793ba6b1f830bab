"""Text of models and tools as HTML that can do nothing: no script, no request, no hidden character.

Values are escaped. Markdown goes through markdown-it-py without raw HTML, then through nh3 with a short list of tags.
Both are imported at first use.
"""

from __future__ import annotations

import html
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from .visible import MARK, visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_TEXT_TAGS = ("p", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "hr", "br", "a", "mark", "span")
TAGS = frozenset(
    (*_TEXT_TAGS, "table", "thead", "tbody", "tr", "th", "td")
)  # what ``markdown_html`` can leave behind; run_view.js takes the same
ATTRIBUTES = {
    "a": ("href",),
    "ol": ("start",),
    "p": ("class",),
    "pre": ("class",),
    "table": ("class", "border", "cellpadding"),
    "th": ("class",),
    "td": ("class",),
}
SCHEMES = frozenset(("http", "https", "mailto"))
DEPTH = 40  # of nested lists and quotes; deeper text is shown flat
_MATH = re.compile(r"[$\\]")


def escape_text(text: str) -> str:
    """``text`` for HTML content or a quoted attribute, hidden characters spelled out in ``<mark>``, math and
    command links without effect."""
    return MARK.sub(_marked, _inert(html.escape(visible(text), quote=True)))


def escape_attribute(text: str) -> str:
    """``text`` for a quoted attribute."""
    return html.escape(visible(text), quote=True)


def _marked(match: re.Match[str]) -> str:
    return f"<mark>{match.group()}</mark>"


def _inert(escaped: str) -> str:
    """Put each sign that could begin TeX into an element of its own: MathJax pairs them within one text node only.
    The text stays as it is for a reader and for the clipboard."""
    return _MATH.sub(r"<span>\g<0></span>", escaped) if "$" in escaped or "\\" in escaped else escaped


def markdown_html(text: str) -> str:
    """Safe HTML for Markdown of a model. Never raises; what cannot be parsed is shown as text."""
    source = visible(text)
    try:
        drawn = _parser().render(source)
    except RecursionError:
        drawn = f"<p>{escape_text(source)}</p>"
    return _clean(drawn)


def _clean(drawn: str) -> str:
    import nh3

    return nh3.clean(
        drawn,
        tags=set(TAGS),
        attributes={name: set(allowed) for name, allowed in ATTRIBUTES.items()},
        url_schemes=set(SCHEMES),
        link_rel="noopener noreferrer",
        clean_content_tags={"script", "style"},
    )


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEPTH}).enable(["table", "strikethrough"])
    rules: dict[str, Any] = {
        "text": _text,
        "image": _image,
        "code_inline": _code,
        "fence": _block_code,
        "code_block": _block_code,
        "link_open": _link_open,
        "link_close": _link_close,
        "table_open": lambda *_: '<table class="kestrel-table" border="1" cellpadding="4">\n',
        "th_open": _cell,
        "td_open": _cell,
        "heading_open": lambda *_: '<p class="kestrel-heading"><strong>',
        "heading_close": lambda *_: "</strong></p>\n",
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, lambda self, tokens, index, options, env, rule=rule: rule(tokens, index))
    return parser


def _text(tokens: list[Token], index: int) -> str:
    return escape_text(tokens[index].content)


def _code(tokens: list[Token], index: int) -> str:
    return f"<code>{escape_text(tokens[index].content)}</code>"


def _block_code(tokens: list[Token], index: int) -> str:
    return f'<pre class="kestrel-pre"><code>{escape_text(tokens[index].content)}</code></pre>\n'


def _cell(tokens: list[Token], index: int) -> str:
    """Columns of text align left unless the model says right."""
    token = tokens[index]
    right = "right" in str(token.attrGet("style") or "")
    return f"<{token.tag}>" if right else f'<{token.tag} class="kestrel-t">'


def safe_address(address: str) -> bool:
    """Whether a link may lead there."""
    scheme, colon, rest = address.partition(":")
    return bool(colon) and scheme.lower() in SCHEMES and bool(rest)


def _link_open(tokens: list[Token], index: int) -> str:
    address = str(tokens[index].attrGet("href") or "")
    return f'<a href="{escape_attribute(address)}">' if safe_address(address) else ""


def _link_close(tokens: list[Token], index: int) -> str:
    opening = next(token for token in reversed(tokens[:index]) if token.type == "link_open")
    address = str(opening.attrGet("href") or "")
    return "</a>" if safe_address(address) else f" ({escape_text(address)})"


def _image(tokens: list[Token], index: int) -> str:
    """An image would be fetched from wherever the model says: its text and its address are shown instead."""
    token = tokens[index]
    address = str(token.attrGet("src") or "")
    return f"{escape_text(token.content or 'image')} ({escape_text(address)})"


def sealed_length(text: str) -> int:
    """How many characters at the start of a growing ``text`` are Markdown blocks that have ended."""
    try:
        tokens = _block_parser().parse(text)
    except RecursionError:
        return 0
    starts = [token.map[0] for token in tokens if token.level == 0 and token.map and token.nesting >= 0]
    if len(starts) < 2:
        return 0
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: starts[-1]])


@cache
def _block_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEPTH}).enable("table")
    return parser.disable(["inline", "text_join", "linkify", "replacements", "smartquotes"], ignoreInvalid=True)
