"""The time zone of this machine, whatever it is set by."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

LOCALTIME, TIMEZONE = "/etc/localtime", "/etc/timezone"
NO_ZONES = ("Factory", "localtime", "posixrules")  # names of files in zone folders that name no zone

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}")


def zone(name: str) -> tzinfo | None:
    """The zone with the IANA name ``name``, or None. UTC is there even without zone data."""
    if name == "UTC":
        return UTC
    if not _KEY.fullmatch(name) or name in NO_ZONES or name.startswith(("posix/", "right/")):
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # no such name, a folder of zones, a damaged file
        return None


@cache
def zone_names() -> frozenset[str]:
    """Every IANA name that has data here."""
    return frozenset(available_timezones()) - frozenset(NO_ZONES)


def system_zone(moment: float) -> tuple[str, tzinfo]:
    """Name and zone of this machine: without an IANA name, the offset at ``moment``, also as the name (UTC-05:00)."""
    name = _configured()
    found = zone(name) if name else None
    if name and found:
        return name, found
    offset = datetime.fromtimestamp(moment, UTC).astimezone().utcoffset() or timedelta()
    return f"UTC{offset_text(offset)}" if offset else "UTC", timezone(offset)


def offset_text(offset: timedelta) -> str:
    """``offset`` as +05:30."""
    minutes = round(offset.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _configured() -> str | None:
    """The IANA name that the machine is set to, as far as it says one. TZ beats the files, also where it names none."""
    setting = os.environ.get("TZ")
    if setting is not None:
        return _name_in(setting.removeprefix(":")) if setting.strip(":") else "UTC"
    try:
        linked = _name_in(os.path.realpath(LOCALTIME))
        if linked:
            return linked
        with open(TIMEZONE, encoding="ascii") as file:
            return _name_in(file.read(200).strip())
    except (OSError, ValueError):
        return None


def _name_in(text: str) -> str | None:
    """The zone that ``text``, a name or the path of a file with zone data, stands for."""
    if text.startswith("/"):
        _, found, text = text.partition("zoneinfo/")
        if not found:
            return None
        text = text.removeprefix("posix/").removeprefix("right/")
    return text if zone(text) else None
