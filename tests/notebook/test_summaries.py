"""Short forms: numbers as people read them."""

import pytest

from kestrel_nb.notebook.summaries import money


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (0.0, "$0"),
        (0.0000798, "$0.00008"),
        (0.000012345, "$0.000012"),
        (0.00049, "$0.00049"),
        (0.0005, "$0.001"),
        (0.0042, "$0.004"),
        (0.9, "$0.900"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money_is_never_rounded_to_nothing(dollars: float, text: str) -> None:
    assert money(dollars) == text
