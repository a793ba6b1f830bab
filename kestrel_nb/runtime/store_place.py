"""Where sessions are stored when nobody says otherwise."""

from __future__ import annotations

import os
from typing import Final

HOME_VARIABLE: Final = "KESTREL_HOME"  # where sessions are stored instead of the user's data folder


def store_folder() -> str:
    """The folder that keeps sessions: ``KESTREL_HOME``, else the user's data folder."""
    if chosen := os.environ.get(HOME_VARIABLE):
        return os.path.expanduser(chosen)
    from platformdirs import user_data_dir

    return user_data_dir("kestrel-nb", appauthor=False)
