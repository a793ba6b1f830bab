"""A web page as Markdown: run as a script in a child process, with one order on standard input.

The order is ``{"library": folder, "html": text, "url": base of its links, "xml": whether it is XHTML}``, the answer
``{"title": text, "text": Markdown}``. Everything here takes time in proportion to the length of the page, whatever is
in it, but for the converter, which is bounded from outside.
"""

import html as entities
import json
import re
import sys
from collections.abc import Iterator
from urllib.parse import urljoin

# One tag with its quoted values (a ">" may stand in them), one comment, or one element that holds no text to read.
_COMMENT = r"<!--(?:-?>|.*?(?:--!?>|\Z))"
_SILENT = (
    r"<svg\b[^<>]*/>|<(?P<silent>script|style|template|noscript|svg|iframe|object)\b.*?(?:</(?P=silent)\b[^<>]*>|\Z)"
)
_TAG = r"</?(?P<name>[a-zA-Z][a-zA-Z0-9:-]*)(?:[\s/](?:[^<>\"']|\"[^\"]*\"|'[^']*')*)?>"
_MARKUP = re.compile(f"{_COMMENT}|{_SILENT}|{_TAG}|<[!?][^<>]*>", re.DOTALL | re.IGNORECASE)
_SLASH_IN_VALUE = re.compile(r"=[^\s\"'<>=`]*/>\Z")
_HIDDEN = re.compile(r"[\s/\"]hidden(?=[\s=/>\"])", re.IGNORECASE)
_VALUE = re.compile(r"=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>]+)|\"[^\"]*\"|'[^']*'")
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'<>]+)""")
_SPACE = re.compile(r"[\0-\x20\x7f]+")  # what browsers leave out where a scheme is spelled
_TITLE_END = re.compile(r"</title\b", re.IGNORECASE)
_TITLE_CHARS = 2_000
# What in XML ends with its slash, where HTML would read on; and what only XML has.
_CLOSED = re.compile(r"<(script|style|template|noscript|iframe|object|title|textarea)\b([^<>]*)/>", re.IGNORECASE)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_REFRESH = re.compile(r"\s*\d*\.?\d*\s*[;,\s]\s*(?:url\s*=\s*)?[\"']?([^\"']{1,2000})", re.IGNORECASE)
# Letters that no screen shows and models read; between a black flag and their end they are the flag of a region.
_TAGS = re.compile("(\U0001f3f4[\U000e0020-\U000e007e]{1,10}\U000e007f)|[\U000e0000-\U000e007f]+")
_ACTIVE = ("javascript:", "vbscript:", "data:", "blob:")
_LINKS = ("href", "src", "cite")
# What a style says that keeps its element from being seen, spaces taken out. Transparency is not among it: many pages
# begin transparent and are faded in by a script.
_HIDING = re.compile(
    r"(?:^|;)(?:display:none|(?:content-)?visibility:(?:hidden|collapse)|clip:rect\([01]|clip-path:inset\((?:50|100)%"
    r"|font-size:(?:0(?:\.0*)?[a-z%]*|(?:[01]|[01]?\.\d+)p[xt])(?:;|!|$)|font:0[a-z]*/"
    r"|(?:left|top|right|bottom|margin-left|margin-top):-(?:\d{4}|\d{3}[\d.]*(?:vw|vh|r?em))|text-indent:-\d{3,}"
    r"|transform:(?:scale\(0\)|translate(?:[xy]|3d)?\((?:[^;]*,)?-(?:\d{4}|\d{3}[\d.]*v[wh])))"
)
_FLAT = re.compile(r"(?:^|;)(?:max-)?(?:height|width):0[a-z]*(?:;|!|$)")  # hides what it holds with overflow:hidden
_ESCAPE = re.compile(r"\\([0-9a-f]{1,6})\s?|/\*.*?\*/", re.IGNORECASE | re.DOTALL)
_NOISE = ("nav", "footer", "button", "[role=navigation]", "[role=contentinfo]", "[role=search]")
_BLOCK = re.compile(
    r"address|article|aside|blockquote|body|br|caption|d[dlt]|details|div|fieldset|fig(?:caption|ure)|footer|form|h[1-6r]"
    r"|head|header|html|legend|li|main|nav|ol|option|p|pre|section|summary|table|tbody|td|tfoot|th|thead|title|tr|ul"
)
_VOID = re.compile(r"area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")


def page(html: str, url: str, library: str, xml: bool) -> dict[str, str]:
    """The title and the text of a page."""
    html = _TAGS.sub(lambda found: found[1] or "", html)
    if xml:
        html = _CDATA.sub(lambda found: entities.escape(found[1]), _CLOSED.sub(r"<\1\2></\1>", html))
    quiet = "".join(_quiet(html))
    text = _markdown(quiet, url, library)
    text = _plain(quiet) if text is None else text
    title, leads_to = _head(quiet)
    if leads_to and not text:
        text = f"This page leads on to {_absolute(url, leads_to)}"
    return {"title": title, "text": text}


def _head(quiet: str) -> tuple[str, str]:
    """The title, and the address that the page sends its reader to; "" for what it has not."""
    title, leads_to = None, ""
    for tag in _MARKUP.finditer(quiet):
        name = (tag["name"] or "").lower()
        if name == "title" and title is None and not tag[0].startswith("</"):
            text = quiet[tag.end() : tag.end() + _TITLE_CHARS]
            title = _line(_TITLE_END.split(text)[0])
        elif name == "meta" and not leads_to:
            values = _values(tag[0])
            found = _REFRESH.fullmatch(values.get("content", ""))
            leads_to = found[1].strip() if found and values.get("http-equiv", "").lower() == "refresh" else ""
    return title or "", leads_to


def _absolute(url: str, address: str) -> str:
    try:
        return urljoin(url, address)
    except ValueError:
        return address


def _values(tag: str) -> dict[str, str]:
    """The attributes of a tag by their names in lower case; of two with one name the first counts."""
    values: dict[str, str] = {}
    for attribute in _ATTRIBUTE.finditer(tag):
        values.setdefault(attribute[1].lower(), entities.unescape(attribute[2].strip("\"'")))
    return values


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
    values = _values(tag) if "=" in tag else {}
    hidden = bool(_HIDDEN.search(tag)) and bool(_HIDDEN.search(_VALUE.sub('=""', tag)))
    hidden |= name.lower() == "dialog" and not re.search(r"\sopen\b", tag)
    hidden |= values.get("aria-hidden", "").strip().lower() == "true"
    hidden |= "style" in values and _hides(values["style"])
    if any(_is_active(key, values[key]) for key in _LINKS if key in values):
        tag = _ATTRIBUTE.sub(_without_code, tag)
    if _SLASH_IN_VALUE.search(tag):  # the slash belongs to the value, and the converter thinks otherwise
        tag = f"{tag[:-1]} >"
    return f"<{name} hidden{tag[1 + len(name) :]}" if hidden and tag[1] != "/" else tag


def _hides(style: str) -> bool:
    """Whether a style keeps its element from being seen, however it is written."""
    plain = _ESCAPE.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)) if found[1] else "", style)
    plain = _SPACE.sub("", plain).lower()
    return bool(_HIDING.search(plain)) or ("overflow:hidden" in plain and bool(_FLAT.search(plain)))


def _is_active(key: str, value: str) -> bool:
    """True for a link to code or data. Of an image that is data the converter keeps the description."""
    value = _SPACE.sub("", value).lower()
    return value.startswith(_ACTIVE) and not (key == "src" and value.startswith("data:"))


def _without_code(attribute: re.Match[str]) -> str:
    key = attribute[1].lower()
    value = entities.unescape(attribute[2].strip("\"'"))
    return " " if key in _LINKS and _is_active(key, value) else attribute[0]


def _markdown(html: str, url: str, library: str) -> str | None:
    """The page as Markdown; None when it is nested too deeply for that."""
    sys.path.append(library)
    import html_to_markdown

    for noise in (_NOISE, ()):  # a page may consist of what elsewhere is noise
        options = html_to_markdown.ConversionOptions(
            extract_metadata=False,
            base_url=url,
            sup_symbol="^",  # 10^6^, not 106
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
    sys.stdout.write(json.dumps(page(order["html"], order["url"], order["library"], order["xml"])))


if __name__ == "__main__":
    main()
