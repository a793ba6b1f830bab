"""What records and views say of a run, in words."""

from typing import Any, cast

import pytest

from kestrel_nb.notebook.view_state import ViewState
from kestrel_nb.notebook.words import error_of


@pytest.mark.parametrize(
    ("message", "first", "rest"),
    [
        ("it broke", "it broke", None),
        ("it broke.", "it broke", None),
        ("it broke. Try again.", "it broke", "Try again."),
        (
            'recorded nothing, now "Hi. How are you?". Record it.',
            'recorded nothing, now "Hi. How are you?"',
            "Record it.",
        ),
        ('a lone " of theirs. And more', 'a lone " of theirs. And more', None),
        ("", "The run failed", None),
    ],
)
def test_the_code_of_an_error_stands_behind_its_first_sentence(message: str, first: str, rest: str | None) -> None:
    state = cast(ViewState, cast(Any, {"error": {"message": message, "code": "oops"}, "tries": 1}))
    assert error_of(state) == [[["b", first], ["", " (oops)."]], *([[["", rest]]] if rest else [])]
