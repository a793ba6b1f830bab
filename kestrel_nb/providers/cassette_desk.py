"""What belongs to the workspaces whose sessions go through a cassette."""

from __future__ import annotations

from dataclasses import dataclass

from ..runtime.secrets import LiveMasker
from .cassette_key import Canonical
from .cassette_text import Places


@dataclass(frozen=True, slots=True)
class Desk:
    """The folders of one workspace, and the requests of its sessions."""

    places: Places
    canonical: Canonical


class Desks:
    """The desks by workspace, made at first use; ``masker`` hides keys for all of them."""

    def __init__(self) -> None:
        self.masker = LiveMasker()
        self._made: dict[str, Desk] = {}

    def of(self, workspace: str) -> Desk:
        """The one of ``workspace``."""
        desk = self._made.get(workspace)
        if desk is None:
            places = Places(workspace)
            desk = self._made[workspace] = Desk(places, Canonical(places, self.masker))
        return desk
