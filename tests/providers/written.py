"""Replies written by hand, played whole and in pieces of every kind."""

from __future__ import annotations

import random
from pathlib import Path

from replies import Played, play
from test_wire_transcripts import cut

from kestrel_nb.providers.wire import Wire

FOLDER = Path(__file__).parents[1] / "data/wire-written"


def body_of(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def played(wire: Wire, body: bytes) -> Played:
    """What ``wire`` makes of ``body``; however that is cut, it must be the same."""
    expected = play(wire, [body])
    assert play(wire, (body[i : i + 1] for i in range(len(body)))).outcome() == expected.outcome()
    dice = random.Random(len(body))
    for _ in range(10):
        assert play(wire, cut(body, dice)).outcome() == expected.outcome()
    return expected
