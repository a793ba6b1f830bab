"""``%config Kestrel`` and ipython_config.py: what can be set, what is refused, and what wins."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Kernel, running_kernel
from sample_cells import HEAD, LOAD

from kestrel_nb.notebook.answering import POLICIES
from kestrel_nb.notebook.settings import Kestrel

APP = f"""{HEAD}
from kestrel_nb.runtime.plugins import Plugin
looping = ScriptedModel([Reply("On.", tool_calls=[("wait", {{"seconds": 0}})])] * 90, id="looping")
other = ScriptedModel(["Fine."] * 9, id="other")
app = Kestrel(model=looping, tools=[wait, note])
app.models.register(other)
%kestrel use app"""
STEPS = "print(run.status, run.result.steps)"


def write_config(home: Path, *lines: str) -> None:
    profile = home / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    profile.joinpath("ipython_config.py").write_text("\n".join(["c = get_config()", *lines]), encoding="utf-8")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel whose ipython_config.py sets something."""
    home = tmp_path_factory.mktemp("settings")
    write_config(home, "c.Kestrel.max_steps = 3", "c.Kestrel.headless = 'deny'")
    with running_kernel(home, extra_env={"KESTREL_HEADLESS": "approve"}) as running:
        running.ok(LOAD, 60)
        running.ok(APP)
        yield running


def test_config_lists_each_setting_with_its_help_and_value(kernel: Kernel) -> None:
    assert "    Kestrel\n" in kernel.ok("%config").text
    text = kernel.ok("%config Kestrel").text
    for name in Kestrel.class_trait_names(config=True):
        assert f"\nKestrel.{name}=<" in text
        assert len(Kestrel.class_traits()[name].help) > 40
    assert "Current: 3" in text
    assert "KESTREL_HEADLESS; then deny" in " ".join(text.split())


def test_the_file_then_config_then_the_cells_option(kernel: Kernel) -> None:
    kernel.ok("%%kestrel -o run\ngo")
    assert kernel.ok(STEPS).text == "max_steps 3\n"
    kernel.ok("%config Kestrel.max_steps = 2")
    kernel.ok("%%kestrel -o run\ngo")
    assert kernel.ok(STEPS).text == "max_steps 2\n"
    kernel.ok("%%kestrel -o run --max-steps 1\ngo")
    assert kernel.ok(STEPS).text == "max_steps 1\n"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("max_steps = 0", "a whole number from 1 on, or None"),
        ("max_steps = True", "a whole number from 1 on, or None"),
        ("max_steps = '3'", "a whole number from 1 on, or None"),
        ("headless = 'maybe'", "any of ['deny', 'approve', 'fail'] or None"),
        ("disclosure = None", "any of ['schema', 'describe', 'head', 'full']"),
        ("no_data = 'yes'", "expected a boolean"),
        ("python_timeout_s = float('nan')", "a number of seconds above 0"),
        ("python_timeout_s = 0", "a number of seconds above 0"),
        ("model = 5", "expected a unicode string"),
        ("model = 'othr'", 'no model "othr"; did you mean "other"?'),
    ],
)
def test_a_bad_value_is_one_line_and_changes_nothing(kernel: Kernel, setting: str, says: str) -> None:
    before = kernel.ok("%config Kestrel").text
    outcome = kernel.run(f"%config Kestrel.{setting}")
    assert says in outcome.text
    assert len(outcome.text.strip().splitlines()) == 1
    assert kernel.ok("%config Kestrel").text == before


def test_a_wrong_name_says_which_is_meant(kernel: Kernel) -> None:
    assert "Did you mean `model`?" in kernel.run("%config Kestrel.modle = 'demo'").text


def test_the_model_is_the_one_said_last(kernel: Kernel) -> None:
    current = "models = %kestrel models\nprint(*models['model'][models['current']])"
    kernel.ok("%kestrel new")
    kernel.ok("%config Kestrel.model = 'other'")
    assert kernel.ok(current).text == "other\n"
    kernel.ok("%%kestrel -o run\nhello")
    assert kernel.ok("print(run.text)").text == "Fine.\n"
    kernel.ok("%kestrel use looping")
    assert kernel.ok(current).text == "looping\n"
    kernel.ok("%config Kestrel.model = 'other'")
    assert kernel.ok(current).text == "other\n"
    kernel.ok("%kestrel use app")  # an application that is chosen later brings its own
    kernel.ok("%kestrel use looping")
    assert kernel.ok(current).text == "looping\n"


def test_the_setting_wins_over_the_environment_and_a_cell_over_the_setting(kernel: Kernel) -> None:
    ask = 'asking = ScriptedModel([Reply("", tool_calls=[("note", {"text": "x"})]), "Done."] * 9, id="asking")'
    kernel.ok(f"{ask}\napp.models.register(asking)\n%config Kestrel.max_steps = None")
    kernel.ok("%%kestrel -m asking\ngo")
    assert kernel.ok("print(notes)").text == "[]\n"
    kernel.ok("%%kestrel -m asking --headless approve\ngo")
    assert kernel.ok("print(len(notes))").text == "1\n"
    kernel.ok("%config Kestrel.headless = None")
    kernel.ok("%%kestrel -m asking\ngo")
    assert kernel.ok("print(len(notes))").text == "2\n"


def test_the_policies_are_those_that_answering_knows() -> None:
    assert tuple(Kestrel.class_traits()["headless"].values) == POLICIES


def test_loading_with_a_bad_value_says_so_and_unloading_forgets(tmp_path: Path) -> None:
    write_config(tmp_path, "c.Kestrel.max_steps = 'many'", "c.Kestrel.model = 'demp'")
    with running_kernel(tmp_path) as kernel:
        outcome = kernel.run(LOAD, 60)
        assert len(outcome.text.strip().splitlines()) == 1
        assert "a whole number from 1 on, or None, not the str 'many'" in outcome.text
        kernel.ok(f"get_ipython().config.Kestrel.max_steps = 4\n{LOAD}")
        outcome = kernel.run("%%kestrel\nhello")
        assert 'no model "demp"; did you mean "demo"?; %config Kestrel.model says which one' in outcome.text
        kernel.ok("%config Kestrel.model = 'demo'")
        assert kernel.ok("%%kestrel\nhello").displayed
        kernel.ok("%unload_ext kestrel_nb")
        assert "Kestrel" not in kernel.ok("%config").text
        kernel.ok(f"{LOAD}\n%load_ext kestrel_nb")
        assert kernel.ok("%config").text.count("    Kestrel\n") == 1
