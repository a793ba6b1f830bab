"""Cutting long text, and cleaning what no encoder takes."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb.runtime.truncation import MAX_TOOL_OUTPUT, clean_text, truncate


def total(text: str) -> int:
    found = re.search(r"of (\d+) characters", text)
    assert found
    return int(found[1])


@pytest.mark.parametrize("unit", ["a", "🤖", "é", "漢"])
def test_p03_the_limit_itself_is_untouched(unit: str) -> None:
    text = unit * MAX_TOOL_OUTPUT
    assert truncate(text) is text
    longer = truncate(text + unit)
    assert longer.startswith(text)
    assert total(longer) == MAX_TOOL_OUTPUT + 1
    assert truncate(text + unit * 1000, 7).startswith(unit * 7 + "\n")


@pytest.mark.parametrize("cluster", ["e\u0301", "👩\u200d💻", "👍🏽", "🇩🇪", "क\u093f", "❤\ufe0f"])
def test_p03_no_visible_character_is_broken(cluster: str) -> None:
    for shift in range(4):
        text = "x" * shift + cluster * 50
        head = truncate(text, 40).partition("\n[truncated")[0]
        assert text.startswith(head)
        assert (len(head) - shift) % len(cluster) == 0
        assert total(truncate(text, 40)) == len(text)


def test_marks_without_end_are_cut_all_the_same() -> None:
    assert len(truncate("e" + "\u0301" * 5000, 1000)) < 1100
    assert truncate("abc", 0).startswith("\n[truncated")


@given(st.text(st.characters(exclude_categories=[])), st.integers(0, 30))
def test_any_text_any_limit(text: str, limit: int) -> None:
    short = truncate(text, limit)
    assert (short == text) or (len(text) > limit and total(short) == len(text))


def test_p01_lone_surrogates_are_replaced() -> None:
    assert clean_text("ok \ud83d end") == "ok \ufffd end"
    assert clean_text("\ud800") == "\ufffd"
    assert clean_text("\udc00a\ud800\ud800") == "\ufffda\ufffd\ufffd"
    assert clean_text("\ud83e\udd16") == "🤖"
    assert clean_text("é漢🤖 plain") == "é漢🤖 plain"


@given(st.text(st.characters(exclude_categories=[])))
def test_clean_text_can_always_be_encoded_and_keeps_the_rest(text: str) -> None:
    clean = clean_text(text)
    json.dumps(clean, ensure_ascii=False).encode()
    assert clean_text(clean) == clean
    if not re.search("[\ud800-\udfff]", text):
        assert clean is text or clean == text
