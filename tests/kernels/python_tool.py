"""A kernel in which a scripted model calls ``run_python`` and the like, and what came of the calls."""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness import Kernel, Outcome, running_kernel

LOAD = "%load_ext kestrel_nb"
HERE = str(Path(__file__).parent)

_START = """\
import sys as _sys
_sys.path.insert(0, {here!r})
def _start():
    from kestrel_nb import Kestrel
    from kestrel_nb.notebook.kernel_tools import NotebookTools
    from kestrel_nb.notebook.state import current
    from kestrel_nb.testing import Reply, ScriptedModel
    import json
    replies = []
    for run in json.loads({runs!r}):
        replies += [*(Reply("", tool_calls=[tuple(call)]) for call in run), "done"]
    model = ScriptedModel(replies)
    app = Kestrel(model=model, plugins=[NotebookTools()])
    current().use_app(app)
    return model
_model = _start()
"""
_GIVEN = """\
def _given():
    import json
    from kestrel_nb.notebook.state import current
    ended = [e for e in current().last.events if e.type in ("tool.executed", "tool.failed", "tool.skipped")]
    keep = ("type", "content", "data", "is_error", "error", "reason", "cause")
    rows = [{k: getattr(e, k) for k in keep if hasattr(e, k)} for e in ended]
    said = [m.content for r in _model.requests[-1:] for m in r.messages if m.role == "tool"]
    return json.dumps({"calls": rows, "said": said})
print(_given())
"""


Call = tuple[str, dict[str, Any]]


@contextmanager
def real_kernel(home: Path, **env: str) -> Iterator[Kernel]:
    """A kernel that approves, and listens to its file descriptors, which it does not below a test of pytest."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.delenv("PYTEST_CURRENT_TEST", raising=False)
        kernel = stack.enter_context(running_kernel(home, extra_env={"KESTREL_HEADLESS": "approve", **env}))
        patch.undo()
        yield kernel


def call(kernel: Kernel, *calls: Call, line: str = "") -> Outcome:
    """One run in which the model makes ``calls`` one after the other."""
    prepare(kernel, calls)
    return kernel.run(f"%%kestrel {line}\ngo", 60)


def prepare(kernel: Kernel, *runs: Iterable[Call]) -> None:
    """In each of the next ``%%kestrel`` cells the model makes one group of calls."""
    kernel.ok(_START.format(here=HERE, runs=json.dumps([list(run) for run in runs])), 60)


def python(*codes: str) -> tuple[Call, ...]:
    """Calls of ``run_python``."""
    return tuple(("run_python", {"code": code}) for code in codes)


def given(kernel: Kernel) -> dict[str, Any]:
    """``calls``: the results of the last run; ``said``: what the model has read of them."""
    found: dict[str, Any] = json.loads(kernel.ok(_GIVEN).text)
    return found


def results(kernel: Kernel, *codes: str) -> list[dict[str, Any]]:
    """The results of a run of ``codes``."""
    outcome = call(kernel, *python(*codes))
    assert outcome.status == "ok", outcome.reply
    rows: list[dict[str, Any]] = given(kernel)["calls"]
    assert len(rows) == len(codes)
    return rows
