"""The collected faults of similar tools: each is held by a test that is named here, or left out for a reason."""

import ast
import json
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROWS = {row["id"]: row for row in map(json.loads, (HERE / "data/cases/cases.jsonl").read_text("utf-8").splitlines())}
HELD = {
    "A01": "providers/test_chat_calls.py::a01",
    "A02": "providers/test_chat_calls.py::a02",
    "A03": "providers/test_chat_calls.py::a03",
    "A05": "providers/test_chat_calls.py::a05",
    "A07": "providers/test_chat_calls.py::a07",
    "A09": "providers/test_chat_calls.py::a09",
    "A10": "providers/test_chat_calls.py::a10",
    "A11": "providers/test_chat_calls.py::a11",
    "B01": "providers/test_chat_chunks.py::b01",
    "B03": "providers/test_chat_chunks.py::b03",
    "B04": "providers/test_chat_chunks.py::b04",
    "B06": "providers/test_chat_chunks.py::b06",
    "B08": "providers/test_chat_chunks.py::b08",
    "B09": "providers/test_chat_chunks.py::b09",
    "B11": "providers/test_faults.py::b11",
    "B13": "providers/test_chat_chunks.py::b13",
    "C01": "providers/test_faults.py::c01",
    "C03": "providers/test_faults.py::c03",
    "C04": "providers/test_faults.py::c04",
    "C07": "providers/test_faults.py::c07",
    "D01": "runtime/test_cancel.py::d01",
    "D03": "runtime/test_loop.py::d03",
    "D04": "runtime/test_loop.py::d04",
    "D07": "runtime/test_tool_calls.py::d07",
    "D08": "runtime/test_loop.py::d08",
    "E01": "kernels/test_kestrel_cells.py::a_double_click_runs_the_tool_once",
    "E03": "kernels/test_restarts.py::inbox_lists_it_and_approve_finishes_the_run",
    "E04": "runtime/test_approvals.py::e04",
    "E05": "runtime/test_cancel.py::e05",
    "E07": "runtime/test_approvals.py::e07",
    "E09": "runtime/test_permissions.py::e09",
    "F01": "kernels/test_kestrel_cells.py::approve",
    "F02": "kernels/test_awaiting_cells.py::a_click_reaches_an_awaiting_cell",
    "F04": "kernels/test_event_loop.py::f04",
    "F07": "notebook/test_run_view.py::a_refused_answer_is_said_in_the_card",
    "F08": "kernels/test_event_loop.py::f08",
    "G01": "kernels/test_event_loop.py::g01",
    "G03": "test_app.py::g03",
    "G04": "kernels/test_event_loop.py::g04",
    "G05": "kernels/test_event_loop.py::g05",
    "G08": "kernels/test_event_loop.py::g08",
    "H01": "kernels/test_words.py::h01",
    "H03": "kernels/test_words.py::h03",
    "I01": "notebook/test_headless.py::nbval_compares_strictly_twice",
    "I03": "notebook/test_headless.py::each_policy_ends_and_is_recorded",
    "I05": "kernels/test_keys.py::i05",
    "J01": "plugins/core_tools/test_file_cases.py::j01",
    "J03": "plugins/core_tools/test_file_cases.py::j03",
    "J04": "plugins/core_tools/test_file_cases.py::j04",
    "J06": "plugins/core_tools/test_file_cases.py::j06",
    "J07": "plugins/core_tools/test_file_cases.py::j07",
    "J10": "plugins/core_tools/test_file_cases.py::j10",
    "K01": "plugins/core_tools/test_file_cases.py::k01",
    "K02": "plugins/core_tools/test_file_cases.py::k02",
    "K04": "plugins/core_tools/test_file_cases.py::k04",
    "K05": "plugins/core_tools/test_file_cases.py::k05",
    "L01": "sandbox/test_path_rows.py::l01",
    "L02": "sandbox/test_path_rows.py::l02",
    "M01": "plugins/core_tools/test_shell_rows.py::m01",
    "M02": "plugins/core_tools/test_shell_rows.py::m02",
    "M04": "plugins/core_tools/test_shell_rows.py::m04",
    "M05": "plugins/core_tools/test_shell_rows.py::m05",
    "N01": "sandbox/test_network.py::n01",
    "N02": "sandbox/test_network.py::n02",
    "N05": "plugins/core_tools/test_web_fetch.py::n05",
    "O01": "runtime/test_validation.py::o01",
    "O02": "runtime/test_validation.py::wording",
    "O04": "runtime/test_validation.py::o04",
    "O07": "runtime/test_validation.py::o07",
    "P01": "kernels/test_event_loop.py::p01",
    "P03": "runtime/test_tool_calls.py::p03",
    "Q01": "runtime/test_manager.py::q01",
    "Q02": "runtime/test_manager.py::q02",
    "Q04": "runtime/test_resume.py::q04",
    "R01": "test_frames.py::r01",
    "R02": "test_frames.py::r02",
    "R03": "notebook/test_hostile_text.py::r03",
    "R05": "test_frames.py::r05",
    "S01": "plugins/builtin_tools/test_database_query.py::s01",
    "S02": "plugins/builtin_tools/test_database_query.py::s02",
    "S05": "plugins/builtin_tools/test_database_query.py::s05",
    "T01": "plugins/builtin_tools/test_math_eval.py::t01",
    "T03": "plugins/builtin_tools/test_math_eval.py::t03",
    "T04": "plugins/builtin_tools/test_date_time.py::t04",
    "T05": "plugins/core_tools/test_slow_patterns.py::t05",
}
LEFT_OUT = {
    "F10": "about ipywidgets Layout borders and Output widgets: the run view is one anywidget, which uses neither; "
    "that it shows everything after a reload is in browser/test_odd_moments.py",
}


def test_every_case_is_held_or_left_out() -> None:
    assert set(HELD) | set(LEFT_OUT) == set(ROWS)
    assert not set(HELD) & set(LEFT_OUT)


@cache
def names_in(path: str) -> list[str]:
    tree = ast.parse((HERE / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test_")]


@pytest.mark.parametrize("id", sorted(HELD))
def test_the_test_that_holds_it_is_there(id: str) -> None:
    path, _, word = HELD[id].partition("::")
    assert any(word in name for name in names_in(path)), f"no test of {path} is named after {word}"
