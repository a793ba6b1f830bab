"""The golden frames: what every tool's data look like as a DataFrame, in ``tests/data/frames/<tool>.json``.

A file is a list of ``{"case", "data", "frame"}``: ``data`` as the tool gave it, ``frame`` as ``as_json`` writes it.
Reading changes nothing. ``python tests/golden_frames.py TOOL...`` writes the frames of these files anew from their
data, to be looked at in the difference before it is committed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kestrel_nb.frames import frame_data, to_frame

if TYPE_CHECKING:
    from kestrel_nb.frames import DataFrame

FOLDER = Path(__file__).parent / "data/frames"


def read(tool: str) -> list[dict[str, Any]]:
    """The cases of ``tool``. Raises FileNotFoundError when it has none yet."""
    cases: list[dict[str, Any]] = json.loads((FOLDER / f"{tool}.json").read_text(encoding="utf-8"))
    return cases


def as_json(frame: DataFrame) -> dict[str, Any]:
    """``frame`` as JSON: columns, index, data (row by row, exact) and dtypes, by position as names may repeat."""
    told = frame_data(frame)
    index = [row[0] if len(row) == 1 else row for row in told["index"]["rows"]] if "index" in told else None
    return {
        "columns": told["columns"],
        "index": list(range(len(frame))) if index is None else index,
        "data": told["rows"],
        "dtypes": told["dtypes"],
    }


def of_this_pandas(frame: dict[str, Any]) -> dict[str, Any]:
    """A written frame as the pandas at hand has it: before version 3 a column of text is one of objects."""
    import pandas

    if int(pandas.__version__.split(".")[0]) >= 3:
        return frame
    return {**frame, "dtypes": ["object" if dtype == "str" else dtype for dtype in frame["dtypes"]]}


def write(tool: str, cases: list[dict[str, Any]]) -> None:
    """Write the cases of ``tool``, each with the frame of its data."""
    made = [{"case": case["case"], "data": case["data"], "frame": as_json(to_frame(case["data"]))} for case in cases]
    text = json.dumps(made, ensure_ascii=False, indent=1)
    (FOLDER / f"{tool}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(name, read(name))
