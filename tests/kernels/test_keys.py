"""Keys of the environment stay out of everything that a notebook leaves behind."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Kernel, running_kernel
from sample_cells import LOAD

KEY = "sk-TESTKEY-123456"
PARTS = (KEY, KEY[:8], KEY[-6:], base64.b64encode(KEY.encode()).decode())
APP = """import logging, os
from kestrel_nb import Kestrel, ModelRequestError, FileSessionStore, tool
from kestrel_nb.testing import Reply, ScriptedModel

@tool(permission="ask")
def leak(how: str) -> str:
    '''Say the key.

    Args:
        how: print it, or raise it
    '''
    if how == "raise":
        raise RuntimeError("401 for key " + key())
    return "the key is " + key()

def key():
    return os.environ["ACME_API_KEY"]

def use(*replies):
    global app, model
    model = ScriptedModel(list(replies))
    app = Kestrel(model=model, tools=[leak], store=FileSessionStore("store"))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def kernel(home: Path) -> Iterator[Kernel]:
    """A kernel with a key in its environment."""
    with running_kernel(home, extra_env={"ACME_API_KEY": KEY}) as running:
        running.ok(LOAD, 60)
        running.ok(APP)
        yield running


def assert_clean(kernel: Kernel, home: Path) -> None:
    """No message that the kernel has sent and no file that it has written holds any part of the key."""
    sent = json.dumps(kernel.log, default=str)
    code = [json.dumps(message["content"].get("code", "")) for message in kernel.log]
    assert not any(part in text for text in code for part in PARTS), "the test itself shows the key"
    stored = b"".join(path.read_bytes() for path in (home / "store").rglob("*") if path.is_file())
    for part in PARTS:
        assert part not in sent
        assert part.encode() not in stored


@pytest.mark.parametrize("how", ["print", "raise"])
def test_i05_a_tool_that_leaks(kernel: Kernel, home: Path, how: str) -> None:
    kernel.ok(f"use(Reply(tool_calls=[('leak', {{'how': '{how}'}})]), 'Done.')\n%kestrel use app")
    outcome = kernel.ok("%%kestrel --headless approve\nhi")
    assert "***" in outcome.displayed[0]["text/plain"]
    kernel.ok("print([message.content for message in _.messages])")
    kernel.ok("print(_.events)")
    assert_clean(kernel, home)


def test_i05_a_server_that_echoes_the_key(kernel: Kernel, home: Path) -> None:
    kernel.ok("use(Reply(error=ModelRequestError('401: bad key ' + key(), status=401)))\n%kestrel use app")
    outcome = kernel.run("%%kestrel\nhi")
    assert outcome.status == "error"
    assert "401: bad key ***" in json.dumps(outcome.reply, default=str)
    kernel.ok("print(repr(model), repr(app), _)")
    kernel.ok("use(Reply(error=ModelRequestError('401: bad key ' + key(), status=401)))")
    raised = kernel.run("await app.ask('hi')")
    assert raised.status == "error"
    assert "401: bad key ***" in json.dumps(raised.reply, default=str)
    kernel.ok("for record in logging.getLogger('kestrel_nb').handlers: print(record)")
    assert_clean(kernel, home)
