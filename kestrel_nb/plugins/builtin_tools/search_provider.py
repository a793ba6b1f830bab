"""What a web search needs: somebody who searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One page that was found."""

    title: str
    url: str
    snippet: str


class WebSearchProvider(Protocol):
    """A search service. ``search`` may raise; the tool then answers with an error object."""

    async def search(self, query: str, max_results: int) -> Sequence[SearchResult]: ...
