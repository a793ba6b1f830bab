"""date-time: its fields, formats, zones, and machines that are set up in odd ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from calling import call, calls, is_failure

from kestrel_nb.plugins.builtin_tools.date_time import DateTime

MOMENT = 1752172200.75  # 2025-07-10 18:30:00 UTC, a Thursday
FIELDS = ["iso", "unix", "unixMs", "date", "time", "timezone", "offset", "dayOfWeek"]


def fixed() -> DateTime:
    return DateTime(clock=lambda: MOMENT)


async def test_the_fields_of_the_documented_moment() -> None:
    assert await call(fixed(), timezone="America/New_York") == {
        "iso": "2025-07-10T14:30:00-04:00",
        "unix": 1752172200,
        "unixMs": 1752172200750,
        "date": "2025-07-10",
        "time": "14:30:00",
        "timezone": "America/New_York",
        "offset": "-04:00",
        "dayOfWeek": "Thursday",
    }


async def test_formats_add_one_text() -> None:
    zone = {"timezone": "Asia/Tokyo"}
    plain, *rest = await calls(fixed(), [zone, *({**zone, "format": form} for form in ("iso", "unix", "locale"))])
    texts = ["2025-07-11T03:30:00+09:00", "1752172200", "Friday, July 11, 2025, 3:30:00 AM"]
    assert list(plain) == FIELDS
    assert rest == [{**plain, "formatted": text} for text in texts]


async def test_it_reads_the_clock() -> None:
    before = time.time()
    data = await call(DateTime())
    assert before - 1 < data["unix"] <= time.time()
    assert datetime.fromisoformat(data["iso"]).timestamp() == data["unix"]


@pytest.mark.parametrize(
    ("zone", "offset", "named"),
    [
        ("Asia/Kolkata", "+05:30", "Asia/Kolkata"),
        ("Asia/Kathmandu", "+05:45", "Asia/Kathmandu"),
        ("Pacific/Marquesas", "-09:30", "Pacific/Marquesas"),
        ("UTC", "+00:00", "UTC"),
        ("Etc/GMT-14", "+14:00", "Etc/GMT-14"),
        ("america/argentina/buenos_aires", "-03:00", "America/Argentina/Buenos_Aires"),
        ("EST5EDT", "-04:00", "EST5EDT"),
    ],
)
async def test_zones(zone: str, offset: str, named: str) -> None:
    data = await call(fixed(), timezone=zone)
    assert (data["offset"], data["timezone"]) == (offset, named)
    assert data["iso"].endswith(offset)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("IST", "did you mean Asia/Kolkata or Europe/Dublin or Asia/Jerusalem?"),
        ("EDT", "did you mean America/New_York?"),
        ("pst", "did you mean America/Los_Angeles"),
        ("AEST", "did you mean Australia/Sydney"),
        ("New York", "did you mean America/New_York?"),
        ("Tokyo", "did you mean Asia/Tokyo?"),
        ("Z", "did you mean UTC?"),
        ("UTC+5", "did you mean Etc/GMT-5 (the sign is turned round)?"),
        ("gmt-03:00", "did you mean Etc/GMT+3 (the sign is turned round)?"),
        ("+0900", "did you mean Etc/GMT-9 (the sign is turned round)?"),
        ("UTC+05:30", "use one such as America/New_York, Asia/Kolkata or UTC"),
        ("+99", "use one such as America/New_York"),
        ("Asia", "did you mean Asia/Kolkata?"),
        ("america/", "did you mean America/New_York?"),
        ("Asia/Calcuta", "Asia/Calcutta"),
        ("../../etc/passwd", "use one such as America/New_York"),
        ("/etc/passwd", "use one such as"),
        ("/usr/share/zoneinfo/UTC", "timezone:"),
        ("America/../../etc/passwd", "timezone:"),
        ("America", "timezone:"),
        ("posix/UTC", "timezone:"),
        ("right/UTC", "timezone:"),
        ("localtime", "timezone:"),
        ("tzdata.zi", "timezone:"),
        ("", "use one such as"),
        (" ", "timezone:"),
        ("UTC+2", "timezone:"),
        ("+05:30", "timezone:"),
        ("Asia/Tok\0yo", "timezone:"),
        ("\ud800", "timezone:"),
        ("x" * 100_000, "timezone:"),
    ],
)
async def test_t04_names_that_are_no_zones_are_refused_with_a_hint(zone: str, hint: str) -> None:
    data = await call(fixed(), timezone=zone)
    assert is_failure(data)
    assert "no IANA time zone name" in data["message"]
    assert hint in data["message"]


@pytest.mark.parametrize("form", ["xml", "", "ISO", "%Y"])
async def test_an_unknown_format_is_refused(form: str) -> None:
    data = await call(fixed(), format=form)
    assert is_failure(data)
    assert data["message"] == "format: must be one of iso, unix, locale"


SCRIPT = """
import json, sys
from kestrel_nb.plugins.builtin_tools.date_time import DateTime
for args in json.loads(sys.argv[1]):
    print(json.dumps(DateTime(clock=lambda: 1752172200.75).execute(args, None).data))
"""


def on_a_machine(*arguments: dict[str, Any], **environment: str) -> list[dict[str, Any]]:
    """What a fresh process answers that has only this of an environment."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(arguments)],
        env={"PATH": os.defpath, "PYTHONPATH": str(Path(__file__).parents[3]), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("setting", "zone", "offset"),
    [
        ("EST5EDT", "EST5EDT", "-04:00"),
        ("America/New_York", "America/New_York", "-04:00"),
        (":Europe/Berlin", "Europe/Berlin", "+02:00"),
        ("/usr/share/zoneinfo/Europe/Paris", "Europe/Paris", "+02:00"),
        ("XYZ5", "UTC-05:00", "-05:00"),
        ("<+0330>-3:30", "UTC+03:30", "+03:30"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "UTC+02:00", "+02:00"),
        ("", "UTC", "+00:00"),
        ("no/such/zone", "UTC", "+00:00"),
        ("../../etc/passwd", "UTC", "+00:00"),
    ],
)
def test_t04_whatever_tz_is_set_to_there_is_an_answer(setting: str, zone: str, offset: str) -> None:
    (data,) = on_a_machine({}, TZ=setting)
    assert (data["timezone"], data["offset"]) == (zone, offset)
    assert list(data) == FIELDS


def test_t04_a_machine_without_zone_data_still_tells_the_time(tmp_path: Path) -> None:
    # A package of this name without data hides the installed one, as on a machine that has neither.
    (tmp_path / "tzdata").mkdir()
    (tmp_path / "tzdata" / "__init__.py").touch()
    path = f"{tmp_path}{os.pathsep}{Path(__file__).parents[3]}"
    asked: list[dict[str, Any]] = [{}, {"timezone": "UTC"}, {"timezone": "Asia/Kolkata"}]
    here, utc, india = on_a_machine(*asked, PYTHONTZPATH="", PYTHONPATH=path, TZ="XYZ5")
    assert (here["timezone"], here["offset"], here["time"]) == ("UTC-05:00", "-05:00", "13:30:00")
    assert (utc["offset"], utc["time"]) == ("+00:00", "18:30:00")
    assert is_failure(india)
    assert india["message"] == "timezone: this Python has no time zone data; pip install tzdata"
