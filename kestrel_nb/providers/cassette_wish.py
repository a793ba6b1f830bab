"""What KESTREL_CASSETTE says, and that nothing reaches a model where it says ``replay``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, cast, get_args

from ..protocol.errors import UsageError
from ..protocol.suggest import suggestion
from ..runtime.models import LanguageModel

CASSETTE_VARIABLE: Final = "KESTREL_CASSETTE"
CassetteMode = Literal["off", "record", "replay", "auto"]
MODES: Final[tuple[str, ...]] = get_args(CassetteMode)


@dataclass(frozen=True, slots=True)
class Wish:
    """What KESTREL_CASSETTE says. A ``mode`` holds whatever the notebook says; a path alone is only the default."""

    mode: CassetteMode | None = None
    path: str | None = None

    @classmethod
    def of(cls, text: str) -> Wish:
        """``MODE:PATH``, ``MODE`` or ``PATH``. The drive of a Windows path is no mode.

        Raises UsageError for a misspelt mode: taken as a path it would let the notebook's words ask the models anew.
        """
        mode, colon, path = text.strip().partition(":")
        if mode in MODES:
            return cls(cast(CassetteMode, mode), path.strip() or None)
        if mode.isalpha() and (len(mode) > 1 if colon else get_close_matches(mode, MODES)):
            known = f"the modes are {', '.join(MODES)}, and a path with such a name begins with ./"
            near = suggestion(mode, MODES, known)
            raise UsageError(f'{CASSETTE_VARIABLE} is "{text.strip()}", and "{mode}" is no mode; {near}')
        return cls(None, text.strip() or None)

    def applied(self, mode: CassetteMode, path: str) -> tuple[CassetteMode, str]:
        """What becomes of a word or an option of the notebook."""
        return (mode, path) if self.mode is None else (self.mode, self.path or path)


def wish() -> Wish:
    """What the environment says now. Raises UsageError for a misspelt mode."""
    return Wish.of(os.environ.get(CASSETTE_VARIABLE, ""))


def is_offline(model: LanguageModel) -> bool:
    """True for the models that say the same each time and reach nothing: demo, scripted ones, a cassette's own."""
    from .cassette_model import RecordedModel
    from .demo import DemoModel
    from .scripted import ScriptedModel

    return isinstance(model, (DemoModel, ScriptedModel, RecordedModel))


def check_asked(model: LanguageModel) -> None:
    """Raise UsageError for a model that a run without a cassette, or one that records, must not ask."""
    if not os.environ.get(CASSETTE_VARIABLE) or is_offline(model) or wish().mode != "replay":
        return
    raise UsageError(
        f'{CASSETTE_VARIABLE} is "{os.environ[CASSETTE_VARIABLE]}" and this application plays no cassette, so '
        f'{model.info.id} is not asked; give it one: Kestrel(cassette=Cassette(PATH, "replay"))'
    )
