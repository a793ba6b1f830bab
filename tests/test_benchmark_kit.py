"""The files of kestrel-nb in the benchmark kit do what the kit asks of a peer."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

KIT = Path(__file__).parents[1] / "benchmarks" / "kit"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A model's server that answers at once, as the kit scripts it in the prompt."""
    server = subprocess.Popen([sys.executable, KIT / "server.py"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().split()[1]}/v1"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.mark.parametrize(
    ("peer", "task", "options"),
    [
        ("kestrel_nb_peer", "steps", ()),
        ("kestrel_nb_peer", "steps", ("--stream",)),
        ("kestrel_nb_peer", "text", ()),
        ("kestrel_nb_peer", "ttfe", ()),
        ("kestrel_nb_peer", "fanout", ("--think-ms", "5")),
        ("inproc_kestrel_nb", "steps", ()),
    ],
)
def test_a_task_of_the_kit(url: str, peer: str, task: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """The harness checks the answers: a peer that leaves out a step fails there."""
    command = [sys.executable, KIT / "harness.py", "--peer", peer, "--task", task, "--n", "4", "--url", url, *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["peer"], told["task"], told["n"]) == (peer, task, 4)


@pytest.mark.parametrize(
    "command",
    [
        ("persist.py", "parts:parts_kestrel_nb", "--quick"),
        ("validate.py", "--parts", "parts_kestrel_nb", "--quick"),
    ],
)
def test_a_part_that_is_measured_alone(command: tuple[str, ...], tmp_path: Path) -> None:
    script, *options = command
    done = subprocess.run(
        [sys.executable, KIT / script, *options], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "parts_kestrel_nb" in done.stdout
