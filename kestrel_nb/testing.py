"""What tests of agents need: a model that plays given replies through the real loop."""

from __future__ import annotations

from .providers.scripted import Reply, ScriptedModel

__all__ = ["Reply", "ScriptedModel"]
