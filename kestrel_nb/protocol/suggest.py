"""What a person may have meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(word: str, names: Iterable[str], otherwise: str, *, shape: str = '"{}"', cutoff: float = 0.6) -> str:
    """``did you mean "x"?`` with the one of ``names`` that is most like ``word``; ``otherwise`` when none is.

    ``shape`` is how the name is written, ``cutoff`` the likeness from 0 to 1 that counts, as difflib measures it.
    """
    near = get_close_matches(word, list(names), n=1, cutoff=cutoff)
    return f"did you mean {shape.format(near[0])}?" if near else otherwise
