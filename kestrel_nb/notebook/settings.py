"""The settings of one shell: ``%config Kestrel.name = value``, or ``c.Kestrel.name = value`` in ipython_config.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traitlets import Bool, Enum, TraitError, TraitType, Unicode, validate
from traitlets.config import Configurable

from ..protocol.errors import KestrelError, UsageError

LONGEST_S = 1e9  # thirty years: any number below fits a timer


class Whole(TraitType[int, int]):  # type: ignore[misc]
    """A whole number from 1 on."""

    info_text = "a whole number from 1 on, or None"

    def validate(self, obj: Any, value: Any) -> int:
        """``value`` when it is one. Raises TraitError."""
        if type(value) is int and value >= 1:
            return value
        raise self.error(obj, value)


class Seconds(TraitType[float, float]):  # type: ignore[misc]
    """A number of seconds above 0."""

    info_text = "a number of seconds above 0"

    def validate(self, obj: Any, value: Any) -> float:
        """``value`` as a float. Raises TraitError."""
        if type(value) in (int, float) and 0 < value < LONGEST_S:
            return float(value)
        raise self.error(obj, value)


class Kestrel(Configurable):  # type: ignore[misc]
    """Settings of kestrel-nb; they hold from the next cell on. An option of a cell wins over its setting."""

    model = Unicode(
        help="The default model, an id that %kestrel models lists or PROVIDER:MODEL; empty: the application's own. It "
        "holds for the application that %load_ext makes, and, when it is set later, for the one in use. A cell's -m "
        "wins, and so does a later %kestrel use MODEL.",
    ).tag(config=True)
    max_steps = Whole(
        default_value=None,
        allow_none=True,
        help="After how many model calls a run stops; None: what the application says. A cell's --max-steps wins.",
    ).tag(config=True)
    headless = Enum(
        ("deny", "approve", "fail"),
        default_value=None,
        allow_none=True,
        help="What answers approvals where nobody can (nbconvert, papermill, nbval, Voila). A cell's --headless wins; "
        "then comes this; then the variable KESTREL_HEADLESS; then deny. Where somebody can answer, they are asked.",
    ).tag(config=True)
    disclosure = Enum(
        ("schema", "describe", "head", "full"),
        default_value="schema",
        help="The most that the tool inspect_variable may tell the model of a table or an array unasked. What a "
        "request discloses itself, such as {df:head 5}, comes on top.",
    ).tag(config=True)
    no_data = Bool(
        False,
        help="Never send values of variables, or of what code prints and returns, to the model, only names, types, "
        "shapes and schemas: as if each cell said --no-data. It wins over disclosure. Files that a tool reads are "
        "sent as ever, and so are the earlier turns of a session.",
    ).tag(config=True)
    python_timeout_s = Seconds(
        default_value=300.0,
        help="After how many seconds the tool run_python stops the code that it runs.",
    ).tag(config=True)

    def __init__(self, **options: Any) -> None:
        self._take_model: Callable[[str], None] | None = None
        super().__init__(**options)

    def on_model(self, take: Callable[[str], None]) -> None:
        """Call ``take`` with the id whenever ``model`` is set from now on; a KestrelError of it refuses the id."""
        self._take_model = take

    def update_config(self, config: Any) -> None:
        """Take what ``%config`` says. A model that is said again is chosen again. Raises TraitError."""
        super().update_config(config)
        if "model" in config.get("Kestrel", {}):
            self._choose(self.model)

    @validate("model")  # type: ignore[untyped-decorator]
    def _check_model(self, proposal: Any) -> str:
        model = str(proposal["value"]).strip()
        self._choose(model)
        return model

    def _choose(self, model: str) -> None:
        if self._take_model is None or not model:
            return
        try:
            self._take_model(model)
        except KestrelError as error:
            raise TraitError(" ".join(str(error).split())) from None


def install(shell: Any) -> None:
    """Show the settings of ``shell`` to ``%config``; its configuration gives the first values.

    Raises UsageError, and changes nothing, when that has a value which is not allowed.
    """
    if _found(shell) is not None:
        return
    try:
        shell.configurables.append(Kestrel(parent=shell))
    except TraitError as error:
        raise UsageError(f"ipython_config.py or %config: {' '.join(str(error).split())}") from None


def remove(shell: Any) -> None:
    """Take the settings out of ``%config``."""
    shell.configurables[:] = [item for item in shell.configurables if not isinstance(item, Kestrel)]


def settings_of(shell: Any) -> Kestrel:
    """The settings of ``shell``; those of a shell that never loaded the extension have their defaults."""
    return _found(shell) or Kestrel()


def _found(shell: Any) -> Kestrel | None:
    configurables = getattr(shell, "configurables", ())
    return next((item for item in configurables if isinstance(item, Kestrel)), None)
