"""``%%kestrel -m local:smollm2`` in a real kernel: it streams, asks before each call, and stops."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from front_end import RunPage
from harness import Kernel, Message, running_kernel
from processes import living, until
from sample_cells import LOAD

SHORT = """from kestrel_nb import Kestrel, KestrelConfig, tool
from kestrel_nb.providers import LocalModel

@tool
def multiply(a: int, b: int) -> int:
    \"\"\"Multiply two numbers.

    Args:
        a: the first number
        b: the second number
    \"\"\"
    return a * b

app = Kestrel(tools=[multiply], config=KestrelConfig(max_tokens=400))
%kestrel use app"""
ASK = "%%kestrel -m local:smollm2 -t multiply\nMultiply 12 and 7."
STORY = "%%kestrel -m local:smollm2 -t multiply\nTell me a long story about the sea and the people who live there."
LOADED_S = 60  # for loading and a first prompt on a machine with other work


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with an app of few tools; the tests share it, since it has the weights loaded then."""
    with running_kernel(tmp_path_factory.mktemp("local")) as kernel:
        kernel.ok(LOAD, 60)
        kernel.ok(SHORT, 60)
        yield kernel


def answer_texts(page: RunPage) -> list[str]:
    """The pieces of text that came to the page one by one."""
    return [
        str(message["content"]["data"]["content"])
        for message in page.kernel.log
        if message["content"].get("comm_id") == page.comm and message["content"]["data"].get("method") == "custom"
    ]


def test_a_call_asks_and_its_result_is_answered(kernel: Kernel) -> None:
    kernel.forget()
    page = RunPage(kernel, ASK)
    card = page.card(LOADED_S)
    assert card["tool"] == "multiply"
    page.answer(card, True)
    outcome = kernel.outcome(page.cell, LOADED_S)
    assert outcome.status == "ok"
    assert any("'kind': 'text'" in text and "'done': False" in text for text in answer_texts(page))
    assert kernel.ok("print(_.status, list(_.frames))").text == "completed ['multiply']\n"


@pytest.mark.parametrize("how", ["stop", "interrupt"])
def test_stop_and_interrupt_reach_it_while_it_writes(kernel: Kernel, how: str) -> None:
    kernel.forget()
    page = RunPage(kernel, STORY)

    def writes(message: Message) -> bool:
        data = message["content"].get("data", {})
        return message["content"].get("comm_id") == page.comm and "sea" in str(data)

    assert kernel.wait(writes, LOADED_S)
    if how == "stop":
        page.send({"type": "stop"})
    else:
        kernel.interrupt()
    outcome = kernel.outcome(page.cell, 5)
    assert outcome.status == ("ok" if how == "stop" else "error")
    kernel.ok("%kestrel new")
    again = RunPage(kernel, ASK)
    assert again.card(LOADED_S)["tool"] == "multiply"
    again.send({"type": "stop"})
    kernel.outcome(again.cell, 5)


def test_the_kernel_answers_while_the_model_works(kernel: Kernel) -> None:
    kernel.forget()
    page = RunPage(kernel, STORY.replace("%%kestrel ", "%%kestrel -b "))
    assert kernel.outcome(page.cell, 5).status == "ok"
    assert kernel.ok("print(6 * 7)", 5).text == "42\n"
    page.send({"type": "stop"})


def test_a_path_that_is_no_model_is_one_line(kernel: Kernel, tmp_path: Path) -> None:
    kernel.forget()
    (tmp_path / "broken.gguf").write_bytes(os.urandom(500))
    outcome = kernel.run(f"%%kestrel -m local:{tmp_path}/broken.gguf\nhello")
    assert outcome.status == "error"
    assert "is no GGUF file" in outcome.reply["evalue"]
    assert "\n" not in outcome.reply["evalue"].strip()


def test_a_kernel_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        kernel.ok(LOAD, 60)
        kernel.ok(SHORT, 60)
        known = set(living("local_worker.py"))
        RunPage(kernel, STORY)
        until(lambda: bool(set(living("local_worker.py")) - known))
        mine = set(living("local_worker.py")) - known
        kernel.kill()
        until(lambda: not mine & set(living("local_worker.py")))
