"""How a request differs from a recorded one, as the end of a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .cassette_key import TEXT, Asked, Said, shared_length

SHOWN: Final = 60  # characters of a text in a sentence
MARK: Final = "where a tool of yours gives another result each time, say @tool(deterministic=False) and record again"


def difference(recorded: Asked, now: Asked) -> str:
    """The first thing in which two requests differ; "" when nothing does."""
    if recorded.model != now.model:
        return f'the model: recorded "{recorded.model}", now "{now.model}"'
    return (
        _tools(recorded.tools, now.tools)
        or _messages(recorded.messages, now.messages)
        or _number("temperature", recorded.temperature, now.temperature)
        or _number("max_tokens", recorded.max_tokens, now.max_tokens)
    )


def not_answered(now: Asked) -> str:
    """The same for one that was asked while recording, and got no reply."""
    return f"no reply to it was recorded, since that run was stopped: {_quote(now.messages[-1].text, 0)}"


def other_beginning(more: int) -> str:
    """The same for one that ends like a recorded one, with so many messages ``more`` before that, or fewer."""
    if more > 0:
        return (
            f"it was recorded without the {_messages_of(more)} that came before it in this conversation; run the cells "
            "in a fresh kernel, or begin a new session with %kestrel new"
        )
    return f"it was recorded after {_messages_of(-more)} that this conversation lacks; run the cells before it too"


def _messages_of(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _tools(recorded: Mapping[str, str], now: Mapping[str, str]) -> str:
    added = [name for name in now if name not in recorded]
    gone = [name for name in recorded if name not in now]
    if added or gone:
        words = [f"{', '.join(names)} {verb}" for names, verb in ((added, "added"), (gone, "gone")) if names]
        return f"the tools: {'; '.join(words)}"
    changed = [name for name in now if recorded[name] != now[name]]
    return f"the tools: another description or schema of {', '.join(changed)}" if changed else ""


def _messages(recorded: tuple[Said, ...], now: tuple[Said, ...]) -> str:
    for number, (old, new) in enumerate(zip(recorded, now, strict=False), 1):
        if old.role != new.role:
            return f"message {number}: recorded from {old.role}, now from {new.role}"
        if old.digest == new.digest:
            continue
        if new.name and old.name == new.name:
            return f"message {number} (the result of {new.name}): {_texts(old.text, new.text)}; {MARK}"
        return f"message {number} ({new.role}): {_texts(old.text, new.text)}"
    if len(recorded) == len(now):
        return ""
    number = min(len(recorded), len(now)) + 1
    longer, which = (recorded, "recorded") if len(recorded) > len(now) else (now, "now")
    other = "now nothing" if which == "recorded" else "recorded nothing"
    return f"message {number} ({longer[number - 1].role}): {other}, {which} {_quote(longer[number - 1].text, 0)}"


def _texts(old: str, new: str) -> str:
    if old == new:
        place = f"after its first {TEXT:,} characters" if len(old) >= TEXT else "in an image or the kind of its parts"
        return f"it differs {place}"
    start = shared_length(old, new)
    return f"recorded {_quote(old, start)}, now {_quote(new, start)}"


def _quote(text: str, start: int) -> str:
    """What ``text`` says around the place ``start``, on one line."""
    begin = max(0, start - SHOWN // 3) if len(text) > SHOWN else 0
    piece = " ".join(text[begin : begin + SHOWN].split())
    return f'"{"…" if begin else ""}{piece}{"…" if begin + SHOWN < len(text) else ""}"'


def _number(name: str, recorded: float | None, now: float | None) -> str:
    return "" if recorded == now else f"{name}: recorded {recorded}, now {now}"
