"""How long a server asks to wait before the next try: its headers, or the details of its error."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any


def retry_after(headers: Mapping[str, str], details: Iterable[Mapping[str, Any]]) -> float | None:
    """Milliseconds, or None when nothing usable was said. A date that has passed means 0.

    The names of ``headers`` are in lower case; ``details`` are what Google's APIs put into the body of an error.
    """
    exact = _number(headers.get("retry-after-ms", ""))
    if exact is not None:
        return exact
    value = headers.get("retry-after", "").strip()
    seconds = _number(value)
    if seconds is not None:
        return seconds * 1000
    moment = _moment(value)
    if moment is not None:
        return max(0.0, (moment - datetime.now(UTC)).total_seconds() * 1000)
    return _delay_in(details)


def _number(text: str) -> float | None:
    # Digits only: float() would also take "nan", "inf", "1_0" and other scripts' digits.
    digits = text.strip(" \t")
    return float(digits) if re.fullmatch(r"[0-9]{1,300}(?:\.[0-9]{1,30})?", digits) else None


def _moment(text: str) -> datetime | None:
    """The time of an HTTP date in any of its three forms; HTTP dates are in GMT."""
    try:
        moment = email.utils.parsedate_to_datetime(text)
        return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _delay_in(details: Iterable[Mapping[str, Any]]) -> float | None:
    """The wait that ``details`` hold: ``{"retryDelay": "34.5s"}``."""
    for item in details:
        delay = item.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            seconds = _number(delay[:-1])
            if seconds is not None:
                return seconds * 1000
    return None
