"""date-time: what day and time it is."""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from ...protocol.tools import ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ..shapes import parameters
from .answers import answer, failure
from .system_zone import offset_text, system_zone, zone, zone_names

FORMATS = ("iso", "unix", "locale")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
PLACES = (  # one in each region
    *("Africa/Cairo", "America/New_York", "Asia/Kolkata", "Atlantic/Reykjavik", "Australia/Sydney"),
    *("Europe/London", "Indian/Maldives", "Pacific/Auckland", "US/Eastern"),
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?", re.IGNORECASE)
# Abbreviations that people type; none is a zone, and several mean more than one.
ABBREVIATIONS: dict[str, tuple[str, ...]] = {
    "Z": ("UTC",),
    "IST": ("Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"),
    "BST": ("Europe/London", "Asia/Dhaka"),
    "CST": ("America/Chicago", "Asia/Shanghai", "America/Havana"),
    "EDT": ("America/New_York",),
    "ET": ("America/New_York",),
    "CDT": ("America/Chicago",),
    "CT": ("America/Chicago",),
    "MDT": ("America/Denver",),
    "MT": ("America/Denver",),
    "PST": ("America/Los_Angeles", "Asia/Manila"),
    "PDT": ("America/Los_Angeles",),
    "PT": ("America/Los_Angeles",),
    "AKST": ("America/Anchorage",),
    "AST": ("America/Halifax", "Asia/Riyadh"),
    "BRT": ("America/Sao_Paulo",),
    "CEST": ("Europe/Berlin", "Europe/Paris"),
    "EEST": ("Europe/Athens", "Europe/Helsinki"),
    "MSK": ("Europe/Moscow",),
    "SAST": ("Africa/Johannesburg",),
    "JST": ("Asia/Tokyo",),
    "KST": ("Asia/Seoul",),
    "SGT": ("Asia/Singapore",),
    "HKT": ("Asia/Hong_Kong",),
    "AEST": ("Australia/Sydney", "Australia/Brisbane"),
    "AEDT": ("Australia/Sydney",),
    "AWST": ("Australia/Perth",),
    "NZST": ("Pacific/Auckland",),
    "NZDT": ("Pacific/Auckland",),
}


class DateTime:
    """``data``: iso, unix (seconds), unixMs, date, time, timezone, offset, dayOfWeek; or error (True), message.

    A ``format`` that was asked for adds ``formatted``, a text: as ``iso``, as ``unix``, or in words ("locale": English,
    the same on every machine, "Thursday, July 10, 2025, 2:30:00 PM"). ``timezone`` is an IANA name; where this machine
    has none, its offset ("UTC-05:00"). ``clock`` gives seconds since 1970.
    """

    schema = ToolSchema(
        name="date-time",
        description="The current date, time, weekday and UTC offset, here or in another time zone.",
        category="time",
        parallel_safe=True,
        read_only=True,
        deterministic=False,
        parameters=parameters(
            {
                "format": {"type": "string", "description": 'iso, unix or locale: adds "formatted". Default iso.'},
                "timezone": {
                    "type": "string",
                    "description": "IANA name such as America/New_York, no abbreviation. Default: this machine's.",
                },
            }
        ),
    )

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Look at the clock; an unknown zone or format is an error object."""
        wanted, asked = args.get("format"), args.get("timezone")
        if wanted is not None and wanted not in FORMATS:
            return failure(f"format: must be one of {', '.join(FORMATS)}")
        moment = self._clock()
        if asked is None:
            return answer(_fields(moment, *system_zone(moment), wanted))
        name = _canonical(asked)
        place = zone(name)
        if place is None:
            return failure(_unknown(asked))
        return answer(_fields(moment, name, place, wanted))


def _fields(moment: float, name: str, place: tzinfo, wanted: str | None) -> dict[str, Any]:
    milliseconds = int(moment * 1000)
    seconds = milliseconds // 1000
    now = datetime.fromtimestamp(seconds, UTC).astimezone(place)
    offset = offset_text(now.utcoffset() or timedelta())
    data = {
        "iso": f"{now:%Y-%m-%dT%H:%M:%S}{offset}",
        "unix": seconds,
        "unixMs": milliseconds,
        "date": f"{now:%Y-%m-%d}",
        "time": f"{now:%H:%M:%S}",
        "timezone": name,
        "offset": offset,
        "dayOfWeek": DAYS[now.weekday()],
    }
    forms = {"iso": data["iso"], "unix": str(seconds), "locale": _in_words(now)}
    return {**data, "formatted": forms[wanted]} if wanted else data


def _in_words(now: datetime) -> str:
    clock = f"{now.hour % 12 or 12}:{now:%M:%S} {'AM' if now.hour < 12 else 'PM'}"
    return f"{DAYS[now.weekday()]}, {MONTHS[now.month - 1]} {now.day}, {now.year}, {clock}"


def _canonical(name: str) -> str:
    """``name`` as IANA spells it, whatever its case."""
    if zone(name):
        return name
    return next((known for known in sorted(zone_names()) if known.lower() == name.lower()), name)


def _unknown(name: str) -> str:
    """What to write instead of ``name``."""
    if not zone_names():
        return "timezone: this Python has no time zone data; pip install tzdata"
    shown = json.dumps(name if len(name) <= 40 else f"{name[:39]}…")
    meant = ABBREVIATIONS.get(name.upper()) or _like(name)
    hint = f"did you mean {' or '.join(meant)}?" if meant else "use one such as America/New_York, Asia/Kolkata or UTC"
    return f"timezone: {shown} is no IANA time zone name; {hint}"


def _like(name: str) -> tuple[str, ...]:
    """What a UTC offset, a region without a city or a slip of the pen stand for."""
    offset = _OFFSET.fullmatch(name.strip())
    if offset:
        hours, minutes = int(offset[2]), int(offset[3] or 0)
        behind = "+" if offset[1] == "-" else "-"  # POSIX counts the other way round
        zone_name = f"Etc/GMT{behind}{hours}"
        return (f"{zone_name} (the sign is turned round)",) if zone_name in zone_names() and not minutes else ()
    region = name.strip().strip("/").lower()
    return tuple(place for place in PLACES if place.lower().startswith(f"{region}/")) or _near(name)


def _near(name: str) -> tuple[str, ...]:
    """Zones whose name, or whose city, is close to ``name``."""
    wanted = name[:40].strip().replace(" ", "_").lower()
    cities: dict[str, list[str]] = {}
    for known in sorted(zone_names()):
        cities.setdefault(known.lower(), []).append(known)
        cities.setdefault(known.rpartition("/")[2].lower(), []).append(known)
    near = difflib.get_close_matches(wanted, cities, n=2, cutoff=0.75)
    return tuple(dict.fromkeys(known for city in near for known in cities[city]))[:3]
