"""The extension shares the kernel's event loop with the user's own code, and leaves it as it was."""

import json
import time
from collections.abc import Iterator

import pytest
from front_end import RunPage
from harness import Kernel, Message, parent, running_kernel
from sample_cells import LOAD

SCRIPTED = """import asyncio, math
from kestrel_nb import Kestrel, tool
from kestrel_nb.testing import Reply, ScriptedModel
def use(*replies, **options):
    global model, app
    model = ScriptedModel(list(replies), **options)
    app = Kestrel(model=model)
"""
SOON = 2.0  # seconds; Interrupt has to act within about one, the rest is for a busy machine


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel; a background task was started in it before the extension was loaded."""
    with running_kernel(tmp_path_factory.mktemp("loop")) as running:
        running.ok(
            "import asyncio\nbeats = []\n"
            "async def beat():\n    while True:\n        beats.append(1)\n        await asyncio.sleep(0.05)\n"
            "early = asyncio.ensure_future(beat())",
            60,
        )
        running.ok(LOAD, 60)
        running.ok(SCRIPTED)
        yield running


def test_g01_a_task_from_before_goes_on(kernel: Kernel) -> None:
    kernel.ok("use('Hello.')\n%kestrel use app")
    kernel.ok("before = len(beats)")
    assert "Hello." in kernel.ok("%%kestrel\nhi").displayed[0]["text/plain"]
    kernel.ok("await asyncio.sleep(0.2)")
    assert kernel.ok("print(len(beats) > before, early.done())").text == "True False\n"


def test_g04_plain_await_cell_and_blocking_call(kernel: Kernel) -> None:
    kernel.ok("use('one', 'two', 'three', 'four', 'five')\nsession = app.sessions.create()\n%kestrel use app")
    assert kernel.ok("print((await session.start('hi').done).text)").text == "one\n"
    assert kernel.ok("print((await session.start('hi')).text)").text == "two\n"
    assert "three" in kernel.ok("%%kestrel\nhi").displayed[0]["text/plain"]
    assert kernel.ok("print(app.run_sync('hi').text)").text == "four\n"
    assert kernel.ok("print((await app.ask('hi')).text)").text == "five\n"
    kernel.ok("before = len(beats)\nawait asyncio.sleep(0.2)")
    assert kernel.ok("print(len(beats) > before)").text == "True\n"


def test_clicks_and_interrupt_work_after_a_blocking_call(kernel: Kernel) -> None:
    kernel.ok("use('one')\napp.run_sync('hi')")
    kernel.ok("use(Reply(tool_calls=[('shell', {'command': 'echo hi'})]), 'Done.')\n%kestrel use app")
    page = RunPage(kernel, "%%kestrel\nrun it")
    page.answer(page.card(), True)
    assert kernel.outcome(page.cell).status == "ok"


def test_g05_interrupt_while_the_model_says_nothing(kernel: Kernel) -> None:
    kernel.ok(
        "async def slow():\n    await asyncio.sleep(30)\nuse(Reply('late', before=slow), 'Here.')\n%kestrel use app"
    )
    cell = kernel.execute("%%kestrel\nhi")
    queued = kernel.execute("print('not reached')")
    time.sleep(1)
    began = time.monotonic()
    kernel.interrupt()
    outcome = kernel.outcome(cell, 10)
    assert time.monotonic() - began < SOON
    assert outcome.status == "error"
    assert outcome.reply["traceback"] == ["kestrel: the run was interrupted; the record above shows what had been done"]
    assert "Interrupted" in outcome.displayed[0]["text/plain"]
    aborted = kernel.reply(queued, 10)
    assert aborted is not None
    assert aborted["status"] == "aborted"
    assert "Here." in kernel.ok("%%kestrel\nagain").displayed[0]["text/plain"]
    assert kernel.ok("print([m.role for m in _.messages])").text == "['user', 'user', 'assistant']\n"


def test_g08_the_users_own_asyncio_still_works(kernel: Kernel) -> None:
    code = (
        "import httpx\n"
        "async with asyncio.timeout(1):\n    task = asyncio.current_task()\n"
        "async with httpx.AsyncClient(transport=httpx.MockTransport(lambda r: httpx.Response(200))) as client:\n"
        "    response = await client.get('http://127.0.0.1/')\n"
        "print(task is not None, response.status_code)"
    )
    assert kernel.ok(code).text == "True 200\n"


def test_f04_a_background_run_keeps_to_its_own_cell(kernel: Kernel) -> None:
    kernel.ok("use(Reply('word ' * 60, delay=0.02))\n%kestrel use app")
    page = RunPage(kernel, "%%kestrel -b -o back\nhi")
    assert kernel.outcome(page.cell, 5).status == "ok"
    other = kernel.ok("for number in range(5):\n    print(number)\n    await asyncio.sleep(0.05)")
    assert other.text == "0\n1\n2\n3\n4\n"
    assert other.displayed == []

    def is_record(message: Message) -> bool:
        return message["msg_type"] == "update_display_data" and parent(message) == page.cell

    assert kernel.wait(is_record, 20) is not None
    assert kernel.ok("print(back.status, back.text.count('word'))").text == "completed 60\n"


def test_a_background_run_asks_and_hears(kernel: Kernel) -> None:
    kernel.ok("use(Reply(tool_calls=[('shell', {'command': 'echo hi'})]), 'Done.')\n%kestrel use app")
    page = RunPage(kernel, "%%kestrel -b -o back\nrun it")
    assert kernel.outcome(page.cell, 5).status == "ok"
    card = page.card()
    assert kernel.ok("print(back.status)").text == "running\n"
    assert "running in another cell" in kernel.run("%%kestrel\nmore").text
    page.answer(card, True)
    kernel.ok("while back.status == 'running':\n    await asyncio.sleep(0.05)")
    assert kernel.ok("print(back.text)").text == "Done.\n"


def test_background_stop_by_the_line_magic(kernel: Kernel) -> None:
    kernel.ok("use(Reply('word ' * 500, delay=0.05), 'Next.')\n%kestrel use app")
    page = RunPage(kernel, "%%kestrel -b -o back\nhi")
    assert kernel.outcome(page.cell, 5).status == "ok"
    assert kernel.ok("said = %kestrel cancel\nprint(said)").text == "stopped\n"
    assert kernel.ok("print(back.status)").text == "cancelled\n"
    assert "Next." in kernel.ok("%%kestrel\nhi").displayed[0]["text/plain"]


@pytest.mark.parametrize(
    "text", ["ok \\ud83d end", "\\x1b[8mhidden\\x1b[0m", "\\u202eabc", "\\0", "<script>alert(1)</script>"]
)
def test_p01_odd_text_of_model_and_tools_is_shown_and_stored(kernel: Kernel, text: str) -> None:
    kernel.ok(
        f"@tool\ndef odd() -> str:\n    '''Odd text.'''\n    return '{text}'\n"
        f"use(Reply('{text}', tool_calls=[('odd', {{}})]), 'Done {text}')\napp.tools.register(odd)\n%kestrel use app"
    )
    outcome = kernel.ok("%%kestrel\nhi")
    bundle = outcome.displayed[0]
    json.dumps(bundle, ensure_ascii=False).encode("utf-8")
    assert "<script" not in bundle["text/html"]
    assert all(ord(char) >= 32 or char in "\n\t" for char in bundle["text/html"] + bundle["text/plain"])


def test_f08_nan_in_tool_data_is_shown(kernel: Kernel) -> None:
    kernel.ok(
        "@tool\ndef numbers() -> list:\n    '''Numbers.'''\n"
        "    return [{'a': math.nan}, {'a': math.inf}, {'a': 1.5}]\n"
        "use(Reply(tool_calls=[('numbers', {})]), 'Done.')\napp.tools.register(numbers)\n%kestrel use app"
    )
    page = RunPage(kernel, "%%kestrel -o run\nhi")
    outcome = kernel.outcome(page.cell)
    assert outcome.status == "ok"
    shown = kernel.ok("print([str(value) for value in run.frames['numbers']['a']])").text
    assert shown == "['nan', 'inf', '1.5']\n"


def test_5000_deltas_are_few_messages_and_the_first_words_come_early(kernel: Kernel) -> None:
    pieces, seconds = 5000, 3.0
    kernel.ok(f"use(Reply(deltas=['word! '] * {pieces}, delay={seconds / pieces}))\n%kestrel use app")
    page = RunPage(kernel, "%%kestrel -o run\nhi")
    outcome = kernel.outcome(page.cell, 60)
    assert outcome.status == "ok"
    messages = [message for message in outcome.messages if parent(message) == page.cell]
    drawn = [m for m in messages if m["msg_type"].startswith("comm_") and m["content"].get("comm_id") == page.comm]
    size = sum(len(json.dumps(message["content"])) for message in messages)
    assert len(messages) <= 100
    assert size <= 200_000
    texts = [m["content"]["data"]["content"] for m in drawn if m["content"].get("data", {}).get("method") == "custom"]
    assert texts, "nothing was streamed"
    first = json.dumps(texts[0])
    assert first.count("word!") < pieces / 2
