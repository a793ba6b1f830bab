"""Every tool's data as a DataFrame: columns, dtypes, values and index as they were written down, nothing changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from golden_frames import FOLDER, as_json, of_this_pandas, read

from kestrel_nb.frames import to_frame
from kestrel_nb.notebook.tables import table_of
from kestrel_nb.plugins.builtin_tools.config import BUILT_IN_TOOLS
from kestrel_nb.plugins.core_tools.plugin import core_tools
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.protocol.codec import dumps

TOOLS = sorted({*(tool.schema.name for tool in core_tools(CoreSettings())), *BUILT_IN_TOOLS})
LONGEST_CELL = 2_000  # characters, of what is written down here: a frame of such cells can be read
FILES = sorted(path.stem for path in FOLDER.glob("*.json"))


def cases() -> Iterator[Any]:
    for tool in FILES:
        for case in read(tool):
            yield pytest.param(case, id=f"{tool}: {case['case']}")


CASES = list(cases())


def test_every_tool_has_its_frames() -> None:
    assert len(TOOLS) == 22
    assert FILES == TOOLS
    for tool in TOOLS:
        names = [case["case"] for case in read(tool)]
        assert names
        assert len(set(names)) == len(names), tool


@pytest.mark.parametrize("case", CASES)
def test_the_frame_is_the_one_written_down(case: dict[str, Any]) -> None:
    data = copy.deepcopy(case["data"])
    frame = to_frame(data)
    assert as_json(frame) == of_this_pandas(case["frame"])
    assert data == case["data"]
    assert frame.index.tolist() == case["frame"]["index"]


@pytest.mark.parametrize("case", CASES)
def test_no_cell_is_a_table_of_its_own(case: dict[str, Any]) -> None:
    for row in as_json(to_frame(case["data"]))["data"]:
        for cell in row:
            assert not isinstance(cell, dict) or not cell, f"rows of their own would say it better: {cell}"
            assert len(str(cell)) <= LONGEST_CELL


@pytest.mark.parametrize("case", CASES)
def test_the_data_can_be_stored_and_drawn(case: dict[str, Any]) -> None:
    assert dumps(case["data"])
    table = table_of(case["data"])
    if table is not None:
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
