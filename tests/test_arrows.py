"""The architecture, as a test: imports go one way, and each third-party library has its home.

An import under TYPE_CHECKING counts, and so does ``import_module`` of a literal name.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kestrel_nb

ROOT = Path(kestrel_nb.__file__).parent

BASE = {"protocol"}
GROUND = BASE | {"runtime", "sandbox"}
SERVICES = {"providers", "plugins", "tool", "frames", "agents", "batch", "sync", "testing"}
COMPOSED = GROUND | SERVICES | {"config", "app"}

MAY_IMPORT = {
    "protocol": set[str](),
    "runtime": BASE,
    "sandbox": BASE,
    **dict.fromkeys(SERVICES, GROUND),
    "batch": GROUND | {"frames"},
    "testing": GROUND | {"providers"},
    "config": GROUND | SERVICES,
    "app": GROUND | SERVICES | {"config"},
    "notebook": COMPOSED,
    "server": COMPOSED,
    "cli": COMPOSED | {"server"},
    "__main__": {"cli"},
    "__init__": COMPOSED | {"notebook"},
}

# A library and the only files, or rooms, that may import it.
ONLY_IN = {
    "pandas": ["frames.py"],
    "nest_asyncio": ["sync.py"],
    "nest_asyncio2": ["sync.py"],
    "jsonschema": ["runtime/validation.py"],
    "httpx": ["providers/http.py", "sandbox/network.py"],
    "httpcore": ["sandbox/exchange.py", "sandbox/network.py"],
    "h11": ["providers/connections.py"],
    "xllamacpp": ["providers/local_worker.py"],
    "quickjs": ["sandbox/javascript_worker.py"],
    "genai_prices": ["providers/prices.py"],
    "keyring": ["providers/keys.py"],
    **{name: ["notebook/"] for name in ("IPython", "ipykernel", "ipywidgets", "anywidget", "traitlets", "zmq")},
}
ONLY_AT_USE = ("pandas", "jsonschema", "nest_asyncio", "nest_asyncio2")  # seconds of import time, or a patch


def dotted(node: ast.ImportFrom, path: Path, root: Path) -> str:
    """The absolute name of the module that ``from ... import`` names in ``path``."""
    if not node.level:
        return node.module or ""
    package = path.relative_to(root.parent).with_suffix("").parts[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def imported(path: Path, root: Path = ROOT, tree: ast.AST | None = None) -> Iterator[str]:
    """Absolute names of everything that the file imports, ``kestrel_nb.room...`` for our own."""
    for node in ast.walk(tree or ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = dotted(node, path, root)
            yield from (f"{name}.{alias.name}" for alias in node.names) if name == root.name else [name]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


def faults(path: Path, root: Path = ROOT) -> list[str]:
    """What is wrong with the imports of one file."""
    relative = path.relative_to(root).as_posix()
    layer = relative.split("/")[0].removesuffix(".py")
    if layer not in MAY_IMPORT:
        return [f"{relative}: no such room is in the plan (MAY_IMPORT)"]
    found = []
    for name in imported(path, root):
        head, _, rest = name.partition(".")
        upward = head == root.name and rest.split(".")[0] not in MAY_IMPORT[layer] | {layer}
        astray = head in ONLY_IN and not any(relative.startswith(home) for home in ONLY_IN[head])
        if upward or astray:
            found.append(f"{relative} imports {name}")
    return found


def top_level(tree: ast.Module) -> ast.Module:
    """The tree without bodies of functions and of TYPE_CHECKING blocks."""

    class Prune(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
            return None

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if ast.unparse(node.test).endswith("TYPE_CHECKING") else self.generic_visit(node)

    pruned = Prune().visit(tree)
    assert isinstance(pruned, ast.Module)
    return pruned


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    assert faults(path) == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_slow_libraries_are_imported_where_they_are_used(path: Path) -> None:
    tree = top_level(ast.parse(path.read_text(encoding="utf-8")))
    slow = [name for name in imported(path, tree=tree) if name.split(".")[0] in ONLY_AT_USE]
    assert slow == []


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("protocol/x.py", "from kestrel_nb.runtime import loop"),
        ("runtime/x.py", "from ..app import Kestrel"),
        ("plugins/core_tools/x.py", "from ...app import Kestrel"),
        ("plugins/core_tools/x.py", "from ... import app"),
        ("runtime/x.py", "from ..sandbox.paths import inside"),
        ("providers/x.py", "from ..plugins import clock"),
        ("notebook/x.py", "from kestrel_nb.server import hub"),
        ("app.py", "def f():\n    from .notebook import magics"),
        ("runtime/x.py", "from .. import Kestrel"),
        ("runtime/x.py", "import importlib\nimportlib.import_module('kestrel_nb.app')"),
        ("frames2.py", "import json"),
        ("runtime/x.py", "def f():\n    import pandas as pd"),
        ("app.py", "from IPython import get_ipython"),
        ("plugins/x.py", "import httpx"),
        ("runtime/x.py", "if TYPE_CHECKING:\n    from jsonschema import Draft202012Validator"),
    ],
)
def test_a_planted_fault_is_found(place: str, line: str, tmp_path: Path) -> None:
    root = tmp_path / "kestrel_nb"
    path = root / place
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert len(faults(path, root)) == 1


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("runtime/x.py", "from ..protocol.errors import KestrelError\nfrom .loop import run\nimport json"),
        ("batch.py", "from .frames import to_frame"),
        ("frames.py", "def f():\n    import pandas"),
        ("testing.py", "from .providers.scripted import ScriptedModel"),
        ("notebook/x.py", "from ..app import Kestrel\nfrom IPython.display import display"),
        ("cli.py", "from .server import serve"),
    ],
)
def test_what_the_plan_allows_is_allowed(place: str, line: str, tmp_path: Path) -> None:
    root = tmp_path / "kestrel_nb"
    path = root / place
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert faults(path, root) == []
