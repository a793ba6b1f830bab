"""The README's table of tools says what the tools say."""

from readme_tools import README, shown, table


def test_the_table_is_that_of_the_tools() -> None:
    text = README.read_text("utf-8")
    assert shown(text) == table(), "run python tests/readme_tools.py"
    assert shown(text).count("\n") == 2 + 22
