"""How the line of a cell or a word is split."""

import pytest

from kestrel_nb.notebook.cell import split_words
from kestrel_nb.protocol.errors import UsageError


@pytest.mark.parametrize(
    ("line", "words", "on_windows"),
    [
        (r"record C:\data\x.jsonl", ["record", "C:datax.jsonl"], ["record", r"C:\data\x.jsonl"]),
        (r'record "C:\my data\x.jsonl" --auto', ["record", r"C:\my data\x.jsonl", "--auto"], None),
        ("a 'b c' d#e # \"f g\"", ["a", "b c", "d#e", "#", "f g"], None),
        (r"a\ b.jsonl", ["a b.jsonl"], ["a\\", "b.jsonl"]),
        ("", [], None),
    ],
)
def test_a_path_of_windows_keeps_its_backslashes(line: str, words: list[str], on_windows: list[str] | None) -> None:
    assert split_words(line, windows=False) == words
    assert split_words(line, windows=True) == (words if on_windows is None else on_windows)


@pytest.mark.parametrize("line", ["a 'b", 'a "b'])
def test_an_open_quote_is_told(line: str) -> None:
    for windows in (False, True):
        with pytest.raises(UsageError, match="a quote is not closed"):
            split_words(line, windows=windows)
