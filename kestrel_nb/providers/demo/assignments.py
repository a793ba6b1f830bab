"""Requests to set an option in a file of settings: its line is looked up first, and then that line is edited."""

from __future__ import annotations

import re

from .phrases import FILE, Op, escape, file_name, match
from .text import LITERAL, Masked

_SETTINGS = re.compile(r"\.(?:toml|ya?ml|json|ini|cfg|conf|env|properties)$|(?:^|/)\.env$", re.I)
_VALUE = r"-?[\d.]+|true|false|yes|no|on|off|null|none"
_KEY = r"(?:(?:the|option|setting|key|value|field|entry|variable|of|for)\s+)*"


def parse_setting(part: str, masked: Masked) -> list[Op] | None:
    """``set timeout to 60 in settings.yaml``: the value changes, whatever it was before."""
    for pattern in (
        rf"(?:set|change|update|modify|switch|bump|put|make)\s+{_KEY}(?P<key>\S+)\s+(?:to|=)\s+(?P<new>\S+)\s+in(?:side)?\s+(?:the\s+)?(?P<file>{FILE})",
        rf"(?:set|change|update|modify|switch|bump|put|make)\s+{_KEY}(?P<key>\S+)\s+in(?:side)?\s+(?:the\s+)?(?P<file>{FILE})\s+(?:to|=)\s+(?P<new>\S+)",
        rf"in\s+(?:the\s+)?(?P<file>{FILE})\s*,?\s+(?:set|change|update|switch)\s+{_KEY}(?P<key>\S+)\s+(?:to|=)\s+(?P<new>\S+)",
    ):
        found = match(pattern, part)
        path = file_name(found["file"], masked) if found else None
        if not found or not path or not _SETTINGS.search(path):
            continue
        key, new = masked.plain(found["key"]), masked.plain(found["new"])
        verb = part.split()[0].lower()
        is_set = verb == "set" or " set " in f" {part.lower()} "
        if not re.fullmatch(r"[A-Za-z_][\w.-]*", key) or not (is_set or re.fullmatch(_VALUE, new, re.I)):
            continue
        if re.search(LITERAL, found["key"]) and not is_set:
            continue
        pattern = rf"^\s*\W?{escape(key)}\W?\s*[:=]"
        return [
            Op("search", {"pattern": pattern, "path": path}, part),
            Op("edit", {"path": path, "old_string": key, "new_string": new}, part, needs="setting"),
        ]
    return None


def setting_change(found: str, key: str, new: str) -> tuple[str, str] | None:
    """The line of ``key`` in a search result and that line with the value ``new``; None unless there is exactly one."""
    lines = [line for line in found.splitlines()[1:] if re.match(r"\S.*?:\d+: ", line)]
    if len(lines) != 1:
        return None
    line = re.sub(r"^\S.*?:\d+: ", "", lines[0])
    parts = re.fullmatch(
        rf"(?P<head>\s*[\"']?{re.escape(key)}[\"']?\s*[:=]\s*)(?P<quote>[\"']?)(?P<value>[^\"'#]*?)(?P=quote)"
        r"(?P<tail>\s*,?\s*(?:#.*)?)",
        line,
    )
    if parts is None or not parts["value"]:
        return None
    changed = f"{parts['head']}{parts['quote']}{new}{parts['quote']}{parts['tail']}"
    return line.strip(), changed.strip()
