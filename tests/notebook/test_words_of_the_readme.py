"""The README's tables of options and commands against the code."""

import re
from pathlib import Path

from kestrel_nb.notebook.cell import OPTIONS
from kestrel_nb.notebook.commands import COMMANDS

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def shown(heading: str) -> str:
    """The first column of the table below ``heading``, as one text."""
    table = README.split(f"| {heading} | what it does |\n|---|---|\n", 1)[1].split("\n\n", 1)[0]
    return "\n".join(line.split(" | ", 1)[0] for line in table.splitlines())


def test_every_option_is_in_the_table_and_no_other() -> None:
    names = {name for option in OPTIONS for name in option.names}
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown("option of `%%kestrel`"))) == names


def test_every_command_is_in_the_table_and_no_other() -> None:
    words = {code.split()[0] for code in re.findall(r"`([^`]+)`", shown("`%kestrel`"))}
    assert words == set(COMMANDS)
