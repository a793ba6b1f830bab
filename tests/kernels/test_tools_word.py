"""``%kestrel tools``: every tool that there is or could be, with its permission, its state and what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import Kernel, running_kernel
from sample_cells import LOAD

from kestrel_nb import DEFAULT_BUILT_IN_TOOLS
from kestrel_nb.plugins.builtin_tools.config import BUILT_IN_TOOLS

NOTEBOOK = {"run_python", "list_variables", "inspect_variable", "insert_cell"}
SHOW = "frame = %kestrel tools\nframe = frame.set_index('tool')\n"
OWN = """from kestrel_nb import *
from kestrel_nb.testing import ScriptedModel
@tool(permission="ask")
def mine(x: int) -> str:
    '''Mine alone.

    More of it.
    '''
    return str(x)
class Blind(ScriptedModel):
    info = ModelInfo(id="blind", provider="scripted", supports_images=False)
model = Blind(["Fine."] * 9)
app = Kestrel(
    model=model,
    tools=[mine],
    plugins=["notebook"],
    built_in_tools=BuiltInToolConfig(enabled=[*DEFAULT_BUILT_IN_TOOLS, "file-read"], disabled=["http-fetch"]),
    tool_policy=ToolPolicy(deny=["shell", "list_variables"]),
)
%kestrel use app"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("tools")) as running:
        running.ok(LOAD, 60)
        yield running


def value(kernel: Kernel, code: str) -> str:
    return kernel.ok(f"{SHOW}print({code})").text.removesuffix("\n")


def test_in_a_new_notebook(kernel: Kernel) -> None:
    assert value(kernel, "len(frame), list(frame.columns)") == (
        "26 ['permission', 'state', 'to_do', 'arguments', 'description']"
    )
    on = set(value(kernel, "*frame.index[frame.state == 'on']").split())
    assert on >= NOTEBOOK | set(DEFAULT_BUILT_IN_TOOLS) - {"image-describe"}
    off = set(value(kernel, "*frame.index[frame.state.str.startswith('off')]").split())
    assert off == set(BUILT_IN_TOOLS) - set(DEFAULT_BUILT_IN_TOOLS)
    assert value(kernel, "*frame.loc['shell-exec', ['permission', 'state', 'to_do']]") == (
        'ask off by default BuiltInToolConfig(enabled=[..., "shell-exec"])'
    )
    assert value(kernel, "*frame.loc['image-describe', ['permission', 'state']]") == (
        "a remote address asks, a data URI runs waits: not offered to a model"
    )
    assert "supports_images" in value(kernel, "frame.loc['image-describe', 'to_do']")
    assert value(kernel, "set(frame.to_do[frame.state == 'on'])") == "{''}"
    assert value(kernel, "frame.arguments['shell']") == "command, [timeout_ms], [cwd]"


def test_what_is_to_do_is_shown_whole(kernel: Kernel) -> None:
    whole = "database_path=...)"
    shown = kernel.ok("%kestrel tools").displayed[0]["text/html"]
    assert whole in shown
    assert "<td>Search the lines of text files in the workspac...</td>" in shown
    assert whole not in kernel.ok(f"{SHOW}frame").displayed[0]["text/html"]  # a frame made of it shows as usual


def test_with_an_application_of_ones_own(kernel: Kernel) -> None:
    kernel.ok(OWN)
    assert value(kernel, "*frame.loc['mine', ['permission', 'state', 'description']]") == "ask on Mine alone"
    assert value(kernel, "*frame.loc['shell', ['state', 'to_do']]") == (
        "off: the tool policy change the application's tool_policy"
    )
    assert value(kernel, "*frame.loc['http-fetch', ['state', 'to_do']]") == (
        'off: it is in disabled take "http-fetch" out of disabled'
    )
    assert value(kernel, "frame.loc['file-read', 'state']") == "on"


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%%kestrel -t shell\nhi", 'the tool policy of this application denies "shell"'),
        ("%%kestrel -t list_variables,grep\nhi", 'the tool policy of this application denies "list_variables"'),
        ("%%kestrel -t shell-exec\nhi", 'the tool "shell-exec" is not there, it is not in enabled; to have it: Built'),
        ("%%kestrel -t image-describe\nhi", 'the tool "image-describe" can\'t work yet: no registered model sees'),
        ("%kestrel policy explain shell-exec command=ls", 'the tool "shell-exec" is not there, it is not in enabled'),
    ],
)
def test_a_tool_that_can_not_be_had(kernel: Kernel, cell: str, says: str) -> None:
    kernel.ok(OWN)
    outcome = kernel.run(cell)
    assert outcome.status == "error"
    assert says in outcome.text
    assert kernel.ok("print(len(model.requests))").text == "0\n"


def test_the_policy_shows_and_explains_it(kernel: Kernel) -> None:
    kernel.ok(OWN)
    shown = kernel.ok("policy = %kestrel policy\nprint(policy)").text
    assert "shell             deny  the application's tool policy" in shown
    assert "image-describe    ask   its default; some calls run by themselves" in shown

    def explained(line: str) -> str:
        return kernel.ok(f"%kestrel policy explain {line}").displayed[0]["text/plain"]

    assert explained("shell command=ls") == 'deny: the tool policy of this application denies "shell"'
    assert explained("image-describe url=https://example.org/a.png") == (
        "ask: `image-describe` asks for such a call (the tool's default)"
    )
    assert explained("image-describe url=data:image/png;base64,iVBORw0KGgo=") == (
        "auto: `image-describe` runs such a call by itself (the tool's default)"
    )
    kernel.ok("%kestrel policy add image-describe auto")
    assert explained("image-describe url=https://example.org/a.png").startswith("auto: the notebook's rule")


def test_a_cell_is_offered_what_is_on(kernel: Kernel) -> None:
    kernel.ok(OWN)
    kernel.ok("%%kestrel\nhello")
    offered = set(kernel.ok("print(*(tool.name for tool in model.requests[-1].tools))").text.split())
    assert {"mine", "file-read", "grep", "date-time"} <= offered
    assert not offered & {"shell", "list_variables", "http-fetch", "shell-exec", "image-describe"}


ASKING = """import asyncio
calls = [("mine", {"x": 7})]
asking = Kestrel(model=ScriptedModel([Reply(tool_calls=calls), "It is done."]), tools=[mine])
%kestrel use asking
task = asyncio.create_task(asking.complete_with_tools("go"))
while not asking.approvals.pending():
    await asyncio.sleep(0.05)"""


@pytest.mark.parametrize("answer", ["approve", "decline"])
def test_a_question_of_a_session_that_is_not_listed(kernel: Kernel, answer: str) -> None:
    kernel.ok(f"{OWN}\nfrom kestrel_nb.testing import Reply")
    kernel.ok(ASKING)
    assert kernel.ok("waiting = %kestrel inbox\nprint(*waiting.frame['tool'])").text == "mine\n"
    short = kernel.ok("print(waiting.frame['id'][0])").text.strip()
    said = kernel.ok(f"%kestrel {answer} {short}").displayed[0]["text/plain"]
    assert said == f"{answer}d; the run goes on in its own cell"
    assert kernel.ok("print(await task)").text == "It is done.\n"
    decided = kernel.ok("print([record.decision.approved for record in asking.approvals.history()])").text
    assert decided == f"[{answer == 'approve'}]\n"
