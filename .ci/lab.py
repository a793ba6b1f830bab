"""Open a notebook in JupyterLab; without a screen, serve it on this machine and print the address."""

import os
import shutil
import sys
from pathlib import Path

BIN = Path(sys.executable).parent
BROWSERS = ("xdg-open", "firefox", "chromium", "chromium-browser", "google-chrome", "open", "wslview")


def can_show_a_page() -> bool:
    """Whether a person sits at this machine and a browser can open in front of them."""
    if not sys.stdout.isatty():
        return False
    screen = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(screen or shutil.which("wslview")) and any(shutil.which(name) for name in BROWSERS)


def command(notebook: str) -> list[str]:
    """The command line of JupyterLab. Headless it listens on 127.0.0.1 alone and prints the notebook's URL."""
    line = [str(BIN / "jupyter-lab"), f"--ServerApp.root_dir={Path.cwd()}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        line.append("--allow-root")
    if can_show_a_page():
        return [*line, notebook]
    url = f"/lab/tree/{Path(notebook).resolve().relative_to(Path.cwd()).as_posix()}"
    return [*line, "--no-browser", "--ServerApp.ip=127.0.0.1", f"--LabApp.default_url={url}"]


if __name__ == "__main__":
    notebook = sys.argv[1]
    if not Path(notebook).is_file():
        raise SystemExit(f"{notebook} is not there: run make lab from the project's folder, or name a NOTEBOOK=...")
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"  # the kernel and its tools come from here
    arguments = command(notebook)
    os.execv(arguments[0], arguments)
