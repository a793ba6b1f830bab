"""Looks for anything in HTML that could act: run, load, submit, or hide characters."""

from __future__ import annotations

import re
from html.parser import HTMLParser

QUIET = {"a", "b", "blockquote", "br", "code", "details", "div", "em", "figcaption", "figure", "hr", "li", "mark", "ol"}
QUIET |= {"p", "pre", "s", "span", "strong", "style", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul"}
PLAIN = {"class", "data-state", "data-level", "data-n", "open", "border", "cellpadding", "start", "rel"}
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f\ud800-\udfff]"
)


class Finder(HTMLParser):
    """Collects what a record must not have."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in QUIET:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            if name == "href" and re.match(r"(https?|mailto):", value or "", re.IGNORECASE):
                continue
            if name not in PLAIN:
                self.found.append(f"{tag} {name}={value!r}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.found.append(f"comment {data!r}")


def active(html: str) -> list[str]:
    """What in ``html`` is not quiet; empty when all is well."""
    finder = Finder()
    finder.feed(html)
    finder.close()
    pairs = [text for text in finder.texts if re.search(r"\$[^$]*\$|\\[(\[]", text)]
    return [*finder.found, *(f"TeX {text!r}" for text in pairs), *(f"hidden {m!r}" for m in HIDDEN.findall(html))]


def shown(html: str) -> str:
    """The text that a reader sees."""
    finder = Finder()
    finder.feed(html)
    finder.close()
    return "".join(finder.texts)
