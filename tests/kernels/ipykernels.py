"""Which ipykernel the protocol tests run against: the installed one and, when asked for, the newest release."""

import importlib.metadata
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

ASKED = os.environ.get("KESTREL_TEST_IPYKERNEL", "installed")
CHOICES = ["installed", "newest"] if ASKED == "newest" else ["installed"]
CACHE = Path(__file__).resolve().parents[2] / ".cache"
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "install"]


@cache
def newest_version() -> str:
    """The version that pip would install today."""
    asked = [*PIP, "--dry-run", "--ignore-installed", "--no-deps", "--report", "-", "ipykernel"]
    report = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=100).stdout
    return str(json.loads(report)["install"][0]["metadata"]["version"])


def extra_env(choice: str) -> dict[str, str] | None:
    """What a kernel's environment needs to run that ipykernel. None: it is the installed one anyway."""
    if choice == "installed":
        return {}
    version = newest_version()
    if version == importlib.metadata.version("ipykernel"):
        return None
    folder = CACHE / f"ipykernel-{version}"
    if not (folder / "ipykernel").is_dir():
        subprocess.run([*PIP, "--target", str(folder), f"ipykernel=={version}"], check=True, timeout=110)
    return {"PYTHONPATH": str(folder)}
