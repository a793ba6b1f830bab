"""The folder that the built-in file tools and shell-exec may not leave."""

from __future__ import annotations

import os

from ...runtime.tools import ToolContext
from ...sandbox.paths import explained, printable_name
from ...sandbox.workspace import Workspace
from .config import BuiltInToolConfig


class SandboxFolder:
    """``sandbox_dir``, relative to the folder that Kestrel was started in and made when it is missing; without one the
    workspace of the session."""

    def __init__(self, config: BuiltInToolConfig) -> None:
        self._folder = os.path.abspath(config.sandbox_dir) if config.sandbox_dir is not None else None

    def __call__(self, context: ToolContext) -> Workspace:
        """The folder for one call. Raises ToolCallError when it can't be made."""
        if self._folder is None:
            return Workspace(context.session.workspace)
        with explained(printable_name(self._folder)):
            os.makedirs(self._folder, exist_ok=True)
        return Workspace(self._folder, name="sandbox folder")
