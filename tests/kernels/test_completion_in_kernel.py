"""Tab as JupyterLab asks: complete_request with the whole cell and the cursor, in a real kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Kernel, Message, running_kernel
from sample_cells import LOAD

SETUP = """import pandas as pd
df_sales = pd.DataFrame({'price': [1.5], 'product id': [3]})
def matchers():
    return len(get_ipython().Completer.custom_matchers)"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernel's folders; it works in ``work``, where there is a file."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "work").mkdir()
    (folder / "work" / "sales-2024.csv").write_text("")
    return folder


@pytest.fixture(scope="module")
def kernel(home: Path) -> Iterator[Kernel]:
    """One kernel for all: completing changes nothing in it."""
    with running_kernel(home, cwd=home / "work") as running:
        running.ok(LOAD, 60)
        running.ok(SETUP, 60)
        yield running


def complete(kernel: Kernel, code: str) -> Message:
    """The reply to Tab at ``|``."""
    position = code.index("|")
    content = {"code": code.replace("|", "", 1), "cursor_pos": position}
    reply = kernel.reply(kernel.send("shell", "complete_request", content), 60)
    assert reply is not None
    assert reply["status"] == "ok"
    return reply


def taken(kernel: Kernel, code: str) -> list[str]:
    """The cells that the offers at ``|`` give when a front end takes them."""
    reply, text = complete(kernel, code), code.replace("|", "", 1)
    return [text[: reply["cursor_start"]] + match + text[reply["cursor_end"] :] for match in reply["matches"]]


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("%kestrel inb|", ["%kestrel inbox"]),
        ("x = 1\n%kestrel use dem|", ["x = 1\n%kestrel use demo"]),
        ("%%kestrel -m anth|\nhi", ["%%kestrel -m anthropic:\nhi"]),
        ("%%kestrel --model=dem|", ["%%kestrel --model=demo"]),
        ("%%kestrel --max|", ["%%kestrel --max-steps"]),
        ("%%kestrel -t grep,gl|", ["%%kestrel -t grep,glob"]),
        ("%%kestrel\nlook at {df|} now", ["%%kestrel\nlook at {df_sales} now"]),
        ("%%kestrel\n😀 é 𝒳 {df_sales.pri|", ["%%kestrel\n😀 é 𝒳 {df_sales.price"]),
        ('%%kestrel\n😀 {df_sales["pro|"]}', ['%%kestrel\n😀 {df_sales["product id"]}']),
        ("%%kestrel\n{df_sales:sch|}", ["%%kestrel\n{df_sales:schema}"]),
        ("%%kestrel\n😀😀 open sal|, please", ["%%kestrel\n😀😀 open sales-2024.csv, please"]),
        ("%%kestrel\nprin|", []),
        ("%%kestr|", ["%%kestrel"]),
    ],
)
def test_h10_the_place_of_an_offer_is_right(kernel: Kernel, typed: str, given: list[str]) -> None:
    assert taken(kernel, typed) == given


def test_all_words_and_options_with_help(kernel: Kernel) -> None:
    words = complete(kernel, "%kestrel |")
    assert words["matches"][:3] == ["use", "models", "tools"]
    (help_of_models,) = [
        item["type"] for item in words["metadata"]["_jupyter_types_experimental"] if item["text"] == "models"
    ]
    assert help_of_models.replace("\N{NO-BREAK SPACE}", " ") == "the models, or a provider's, as a DataFrame"
    assert {"-m", "--model", "--headless"} <= set(complete(kernel, "%%kestrel -|")["matches"])


def test_the_older_question_that_knows_one_line_only(kernel: Kernel) -> None:
    kernel.ok("get_ipython().kernel.use_experimental_completions = False")
    try:
        assert taken(kernel, "x = 1\n%kestrel inb|") == ["x = 1\n%kestrel inbox"]
        assert taken(kernel, "%%kestrel --model=dem|\nhi") == ["%%kestrel --model=demo\nhi"]
    finally:
        kernel.ok("get_ipython().kernel.use_experimental_completions = True")


def test_docs_of_both_magics(kernel: Kernel) -> None:
    for code in ("%kestrel?", "%%kestrel?"):
        (page,) = kernel.ok(code).reply["payload"]
        assert "--max-steps N" in page["data"]["text/plain"]
        assert "approve ID [--session]" in page["data"]["text/plain"]


def test_help_of_an_option_and_of_nothing(kernel: Kernel) -> None:
    assert "the model of this run" in kernel.ok("%kestrel help --model").displayed[0]["text/plain"]
    outcome = kernel.run("%kestrel help --modle")
    assert outcome.status == "error"
    assert "did you mean --model?" in outcome.text


def test_loading_and_unloading(kernel: Kernel, home: Path) -> None:
    assert kernel.ok("%load_ext kestrel_nb\nprint(matchers())").text.splitlines()[-1] == "1"
    assert kernel.ok("%reload_ext kestrel_nb\nprint(matchers())").text == "1\n"
    assert kernel.ok("%unload_ext kestrel_nb\nprint(matchers())").text == "0\n"
    assert "inbox" not in complete(kernel, "%kestrel inb|")["matches"]
    kernel.ok(LOAD)
    assert taken(kernel, "%kestrel inb|") == ["%kestrel inbox"]


def test_completing_leaves_nothing_behind(kernel: Kernel, home: Path) -> None:
    kernel.forget()
    for code in ("%kestrel |", "%%kestrel -s |", "%%kestrel -t |", "%kestrel approve |", "%%kestrel\n{|"):
        complete(kernel, code)
    kernel.ok("pass")
    assert {message["msg_type"] for message in kernel.log} == {"status", "execute_input"}
    assert list(home.rglob("*kestrel-nb*")) == []
    assert [path.name for path in (home / "work").iterdir()] == ["sales-2024.csv"]


def test_sessions_of_this_kernel(kernel: Kernel) -> None:
    kernel.ok("%%kestrel -s spring-sales -o answer\nhello", 60)
    assert taken(kernel, "%%kestrel -s spr|") == ["%%kestrel -s spring-sales"]
    assert taken(kernel, "%kestrel cancel spr|") == ["%kestrel cancel spring-sales"]
    assert taken(kernel, "%kestrel show an|") == ["%kestrel show answer"]
