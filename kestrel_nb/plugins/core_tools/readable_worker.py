"""A web page as Markdown: run as a script in a child process, with one order on standard input.

The order is ``{"library": folder, "html": text, "url": base of its links}``, the answer
``{"title": text, "text": Markdown}``. Everything here takes time in proportion to the length of the page, whatever is
in it, but for the converter, which is bounded from outside.
"""

import html as entities
import json
import re
import sys
from collections.abc import Iterator

# One tag with its quoted values (a ">" may stand in them), one comment, or one element that holds no text to read.
_COMMENT = r"<!--(?:-?>|.*?(?:--!?>|\Z))"
_SILENT = r"<(?P<silent>script|style|template|noscript|svg|iframe|object)\b.*?(?:</(?P=silent)\b[^<>]*>|\Z)"
_TAG = r"</?(?P<name>[a-zA-Z][a-zA-Z0-9:-]*)(?:\s(?:[^<>\"']|\"[^\"]*\"|'[^']*')*)?/?>"
_MARKUP = re.compile(f"{_COMMENT}|{_SILENT}|{_TAG}|<[!?][^<>]*>", re.DOTALL | re.IGNORECASE)
_SLASH_IN_VALUE = re.compile(r"=[^\s\"'<>=`]*/>\Z")
_HIDDEN = re.compile(r"\shidden(?=[\s=/>])", re.IGNORECASE)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'<>]+)""")
_SPACE = re.compile(r"[\0-\x20\x7f]+")  # what browsers leave out where a scheme is spelled
_TITLE = re.compile(r"<title\b[^<>]*>([^<]{0,2000})", re.IGNORECASE)
_ACTIVE = ("javascript:", "vbscript:", "data:", "blob:")
_LINKS = ("href", "src", "cite")
# What a style says that keeps its element from being seen, spaces taken out. Transparency is not among it: many pages
# begin transparent and are faded in by a script.
_HIDING = re.compile(
    r"(?:^|;)(?:display:none|(?:content-)?visibility:(?:hidden|collapse)|font-size:(?:0[a-z%]*|1px)(?:;|!|$)"
    r"|(?:left|top|right|bottom|margin-left|margin-top):-\d{4,}|text-indent:-\d{3,}|clip:rect\([01]"
    r"|clip-path:inset\((?:50|100)%|transform:scale\(0\)|(?:height|width|max-height):0[a-z]*;(?:.*;)?overflow:hidden)"
)
_NOISE = ("nav", "footer", "button", "[role=navigation]", "[role=contentinfo]", "[role=search]")
_BLOCK = re.compile(
    r"address|article|aside|blockquote|body|br|caption|d[dlt]|details|div|fieldset|fig(?:caption|ure)|footer|form|h[1-6r]"
    r"|head|header|html|legend|li|main|nav|ol|option|p|pre|section|summary|table|tbody|td|tfoot|th|thead|title|tr|ul"
)
_VOID = re.compile(r"area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")


def page(html: str, url: str, library: str) -> dict[str, str]:
    """The title and the text of a page."""
    title = _TITLE.search(html)
    quiet = "".join(_quiet(html))
    text = _markdown(quiet, url, library)
    return {"title": _line(title[1]) if title else "", "text": _plain(quiet) if text is None else text}


def _line(text: str) -> str:
    return " ".join(entities.unescape(text).split())


def _quiet(html: str) -> Iterator[str]:
    """The page without comments and scripts; what is hidden by a style or from readers is marked as hidden, and no
    link leads to code or to data."""
    at = 0
    for found in _MARKUP.finditer(html):
        yield html[at : found.start()]
        at = found.end()
        if found["name"]:
            yield _tag(found[0], found["name"])
        elif found["silent"]:
            yield " "
    yield html[at:]


def _tag(tag: str, name: str) -> str:
    hidden = bool(_HIDDEN.search(tag)) and bool(_HIDDEN.search(_QUOTED.sub("", tag)))
    hidden |= name.lower() == "dialog" and not re.search(r"\sopen\b", tag)
    dropped: list[str] = []
    for attribute in _ATTRIBUTE.finditer(tag):
        key = attribute[1].lower()
        if key not in ("style", "aria-hidden", *_LINKS):
            continue
        value = _SPACE.sub("", entities.unescape(attribute[2].strip("\"'"))).lower()
        hidden |= value == "true" if key == "aria-hidden" else key == "style" and bool(_HIDING.search(value))
        if key in _LINKS and value.startswith(_ACTIVE) and not (key == "src" and value.startswith("data:")):
            dropped.append(attribute[0])  # of an image that is data the converter keeps its description
    for text in dropped:
        tag = tag.replace(text, "")
    if _SLASH_IN_VALUE.search(tag):  # the slash belongs to the value, and the converter thinks otherwise
        tag = f"{tag[:-1]} >"
    return f"<{name} hidden{tag[1 + len(name) :]}" if hidden and tag[1] != "/" else tag


def _markdown(html: str, url: str, library: str) -> str | None:
    """The page as Markdown; None when it is nested too deeply for that."""
    sys.path.append(library)
    import html_to_markdown

    for noise in (_NOISE, ()):  # a page may consist of what elsewhere is noise
        options = html_to_markdown.ConversionOptions(
            extract_metadata=False,
            base_url=url,
            inline_data_media="alt_text_only",
            exclude_selectors=list(noise),
            preprocessing=html_to_markdown.PreprocessingOptions(remove_navigation=bool(noise), remove_forms=False),
        )
        result = html_to_markdown.convert(html, options)
        if any(str(warning.kind).endswith("depth_limit_exceeded") for warning in result.warnings or ()):
            return None
        if (result.content or "").strip():
            break
    return (result.content or "").strip()


def _plain(html: str) -> str:
    """The text of a page, a line for each block."""
    pieces, at, inside, depth = [], 0, "", 0
    for found in _MARKUP.finditer(html):
        if not inside:
            pieces.append(html[at : found.start()])
        at, name, tag = found.end(), (found["name"] or "").lower(), found[0]
        if inside:
            depth += (name == inside) * (-1 if tag.startswith("</") else 1)
            inside = inside if depth else ""
        elif re.match(r"<[^\s>]+ hidden\b", tag) and not _VOID.fullmatch(name):
            inside, depth = name, 1
        elif _BLOCK.fullmatch(name):
            pieces.append("\n")
    if not inside:
        pieces.append(html[at:])
    lines = (_line(line) for line in entities.unescape("".join(pieces)).split("\n"))
    return "\n".join(line for line in lines if line)


def main() -> None:
    """One order, one answer."""
    order = json.loads(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(page(order["html"], order["url"], order["library"])))


if __name__ == "__main__":
    main()
