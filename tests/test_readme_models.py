"""The README's table of providers says what the code says."""

from readme_models import README, shown, table

from kestrel_nb.notebook.checkup_models import EXTRAS


def test_the_table_is_that_of_the_providers() -> None:
    text = README.read_text("utf-8")
    assert shown(text) == table(), "run python tests/readme_models.py"


def test_each_extra_is_told() -> None:
    section = README.read_text("utf-8").split("\n## Models\n", 1)[1].split("\n## ", 1)[0]
    assert all(f"`{extra}`" in section for extra in EXTRAS if extra != "web")
