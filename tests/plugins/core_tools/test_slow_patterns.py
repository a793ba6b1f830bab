"""T05: patterns that backtrack for ever end, and the event loop and its clicks go on meanwhile."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from stage import Stage, results

from kestrel_nb.plugins.core_tools.plugin import core_tools
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.testing import Reply, ScriptedModel

SLOW = {
    "(b+)+$": "b" * 5000 + "c",
    "([0-9a-f]+)+g": "0123456789abcdef" * 4,
    r"(a|aa)+$": "a" * 60 + "!",
    r"^(\w+\s?)*$": "word " * 200 + "!",
    r"(x+x+)+y": "x" * 5000,
}


def staged(tmp_path: Path, **args: Any) -> Stage:
    model = ScriptedModel(replies=[Reply(tool_calls=[("grep", args)]), "done"])
    return Stage(model, core_tools(CoreSettings()), default_workspace=str(tmp_path))


async def heartbeat(gaps: list[float]) -> None:
    """Notes how late each beat of the event loop is."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.01)
        gaps.append(time.monotonic() - before - 0.01)


@pytest.mark.parametrize("pattern", SLOW)
async def test_t05_the_event_loop_beats_during_a_catastrophic_pattern(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "evil.txt").write_text(SLOW[pattern] + "\n")
    stage = staged(tmp_path, pattern=pattern)
    gaps = [0.0]
    heart = asyncio.create_task(heartbeat(gaps))
    started = time.monotonic()
    await stage.ask()
    took = time.monotonic() - started
    heart.cancel()
    sys.stdout.write(f"{pattern}: {took:.2f} s, {len(gaps)} beats, the latest {max(gaps) * 1000:.0f} ms late\n")
    assert max(gaps) < 1
    assert took < 30
    [said] = results(stage.session.messages)
    assert "no matches" in said or "took more than 2 s in one file; make it simpler" in said
    stage.check()


async def test_t05_a_catastrophic_search_is_stopped_within_a_second(tmp_path: Path) -> None:
    (tmp_path / "evil.txt").write_text("b" * 5000 + "c\n")
    stage = staged(tmp_path, pattern="(b+)+$")
    asking = asyncio.create_task(stage.ask())
    await stage.until("tool.started")
    await asyncio.sleep(0.3)
    started = time.monotonic()
    stage.session.cancel()
    result = await asking
    assert time.monotonic() - started < 1
    assert result.status == "cancelled"
    stage.check()


@pytest.mark.parametrize("pattern", ["[unclosed", "(?P<x>a)(?P<x>b)", "(", "a{2,1}", "*", r"\1"])
async def test_t05_an_invalid_pattern_says_so(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "f").write_text("text\n")
    stage = staged(tmp_path, pattern=pattern)
    await stage.ask()
    [failed] = stage.of("tool.failed")
    assert "invalid regex: " in str(failed.error)
    assert "invalid regex: " in results(stage.session.messages)[0]
