"""What ``import kestrel_nb`` and the rooms below the fronts cost and touch, each seen in a fresh process."""

import json
import subprocess
import sys
from typing import Any

import pytest

HEAVY = {
    "IPython",
    "PIL",
    "anywidget",
    "asyncio",
    "charset_normalizer",
    "docstring_parser",
    "h11",
    "httpx",
    "ipykernel",
    "ipywidgets",
    "jsonschema",
    "markdown_it",
    "nest_asyncio",
    "nest_asyncio2",
    "nh3",
    "numpy",
    "pandas",
    "httpcore",
    "quickjs",
    "platformdirs",
    "playwright",
    "pydantic",
    "regex",
    "starlette",
    "traitlets",
    "wcmatch",
    "zmq",
}

PROBE = """
import json, os, sys, threading
before, environ, cwd, path, hooks = set(sys.modules), dict(os.environ), os.getcwd(), list(sys.path), sys.excepthook
{statement}
print(json.dumps(dict(
    modules=sorted(set(sys.modules) - before), threads=threading.active_count(),
    untouched=(environ, cwd, path, hooks) == (dict(os.environ), os.getcwd(), sys.path, sys.excepthook),
)))
"""


def probe(statement: str) -> dict[str, Any]:
    """Run one statement in a new interpreter; what it loaded, started and changed. It must print nothing itself."""
    code = PROBE.format(statement=statement)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1, done.stdout
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def heads(modules: list[str]) -> set[str]:
    """The top names of the modules."""
    return {name.split(".")[0] for name in modules}


def test_the_package_loads_nothing_and_changes_nothing() -> None:
    seen = probe("import kestrel_nb")
    assert heads(seen["modules"]) & HEAVY == set()
    assert [name for name in seen["modules"] if name.startswith("kestrel_nb.")] == []
    assert seen["untouched"]
    assert seen["threads"] == 1


@pytest.mark.parametrize(
    "statement",
    [
        "from kestrel_nb import Kestrel, KestrelConfig",
        "from kestrel_nb import FileSessionStore, SessionManager, tool",
        "from kestrel_nb import PermissionRule, ToolContext",
        "import kestrel_nb.frames",
    ],
)
def test_public_names_load_no_third_party_library(statement: str) -> None:
    seen = probe(statement)
    assert heads(seen["modules"]) & (HEAVY - {"asyncio"}) == set()
    assert seen["untouched"]
    assert seen["threads"] == 1


def test_the_decorator_keeps_its_name_beside_its_module() -> None:
    probe("import kestrel_nb.tool; from kestrel_nb import tool; assert tool.__name__ == 'tool' and callable(tool)")
    probe("from kestrel_nb import tool; import kestrel_nb.tool; assert callable(kestrel_nb.tool)")
    probe("from kestrel_nb.tool import tool as one; from kestrel_nb import tool; assert one is tool")


def test_an_unknown_name_is_an_ordinary_error() -> None:
    probe("import kestrel_nb\ntry: kestrel_nb.nothing\nexcept AttributeError as e: assert 'nothing' in str(e)")
