"""The demo model, in the order of its work: text, phrases, requests, offered tools, outcomes, replies, model."""

from __future__ import annotations

from .model import DemoModel

__all__ = ["DemoModel"]
