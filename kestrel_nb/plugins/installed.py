"""Plugins of other packages, found by the entry point group ``kestrel_nb.plugins``. Only what is named is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..protocol.errors import PluginError
from ..protocol.suggest import suggestion
from ..runtime.plugins import Plugin

GROUP = "kestrel_nb.plugins"


def installed_names() -> list[str]:
    """The names of the plugins that other packages bring, sorted."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def installed_plugin(name: str) -> Plugin | None:
    """The plugin that a package has declared as ``name``, made by calling what it names; None when there is none.

    Raises PluginError when it can't be loaded or is no plugin.
    """
    entry = next(iter(entry_points(group=GROUP, name=name)), None)
    return None if entry is None else _made(entry)


def unknown_plugin(name: str, own: Sequence[str]) -> PluginError:
    """An error that names the nearest plugin, or all of them; ``own`` are those of this package."""
    names = [*own, *installed_names()]
    hint = suggestion(name, names, f"there are: {', '.join(names)}")
    return PluginError(f'no plugin "{name}"; {hint}')


def _made(entry: EntryPoint) -> Plugin:
    try:
        found: Any = entry.load()
        plugin: Plugin = found if hasattr(found, "activate") and not isinstance(found, type) else found()
    except (Exception, SystemExit) as error:
        raise PluginError(
            f'plugin "{entry.name}" ({entry.value}) can\'t be loaded: {type(error).__name__}: {error}'
        ) from error
    if not isinstance(getattr(plugin, "name", None), str) or not callable(getattr(plugin, "activate", None)):
        raise PluginError(f'plugin "{entry.name}" ({entry.value}) is no plugin: it needs a name and an activate method')
    return plugin
