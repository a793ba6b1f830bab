"""What replies took: tokens by model, each reply at the price of the model that gave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ..protocol.sessions import ModelUsage, Usage

Price = Callable[[str, Usage], float | None]


class Spending:
    """Tokens and US dollars of many replies.

    A reply is priced on its own, because some prices depend on the size of a request. One whose price is not known
    yet is tried again with the next; until then what all of it costs is unknown.
    """

    def __init__(self, entries: Iterable[ModelUsage] = ()) -> None:
        self._entries = {entry.model: entry for entry in entries}
        self._final: set[str] = set()  # models with a reply whose price will not become known

    @property
    def entries(self) -> tuple[ModelUsage, ...]:
        """One per model, the one used first first."""
        return tuple(self._entries.values())

    @property
    def usage(self) -> Usage:
        """All tokens together."""
        return sum((entry.usage for entry in self._entries.values()), Usage())

    def add(self, model: str, usage: Usage, cost: float | None, *, final: bool = False) -> None:
        """Count one reply of ``model``; ``final``: an unknown cost of it stays unknown.

        A server that says nothing of tokens leaves nothing to count.
        """
        if usage == Usage():
            return
        if final and cost is None:
            self._final.add(model)
        entry = self._entries.get(model) or ModelUsage(model=model)
        self._entries[model] = replace(
            entry,
            usage=entry.usage + usage,
            cost=entry.cost + (cost or 0.0),
            unpriced=entry.unpriced + usage if cost is None else entry.unpriced,
        )

    def price_again(self, price: Price | None) -> None:
        """Try once more to price what had no price."""
        if price is None:
            return
        for entry in self.entries:
            if entry.model in self._final or entry.unpriced == Usage():
                continue
            if (cost := price(entry.model, entry.unpriced)) is not None:
                self._entries[entry.model] = replace(entry, cost=entry.cost + cost, unpriced=Usage())

    @property
    def cost(self) -> float | None:
        """What all of it costs in US dollars; None when nothing was counted, or a part has no known price."""
        entries = self.entries
        if not entries or any(entry.unpriced != Usage() for entry in entries):
            return None
        return sum(entry.cost for entry in entries)
