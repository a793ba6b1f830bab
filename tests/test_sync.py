"""run_sync: in a script, from threads, inside a running loop, and when it is interrupted."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from stage import FunctionTool

from kestrel_nb import Kestrel
from kestrel_nb.protocol.errors import ModelRequestError, UsageError
from kestrel_nb.testing import Reply, ScriptedModel

ROOT = Path(__file__).parent.parent


def script(text: str, *, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run ``text`` as a program of its own."""
    program = textwrap.dedent(text)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )


def test_g04_a_script() -> None:
    done = script(
        """
        import asyncio
        from kestrel_nb import Kestrel
        from kestrel_nb.testing import ScriptedModel
        app = Kestrel(model=ScriptedModel(["one", "two", "three"]))
        print(app.run_sync("hi").text, app.run_sync("hi").text)
        app.close()
        app.close()
        print(asyncio.run(app.ask("hi")).text)
        """
    )
    assert (done.stdout, done.stderr) == ("one two\nthree\n", "")


def test_an_error_of_the_run_tells_of_no_other() -> None:
    done = script(
        """
        from kestrel_nb import Kestrel
        Kestrel(model="openai+http://127.0.0.1:9/v1:m").run_sync("hi", max_steps=0)
        """
    )
    assert done.returncode == 1
    assert "no running event loop" not in done.stderr


def test_a_script_that_never_closes_ends_quietly() -> None:
    done = script(
        """
        from kestrel_nb import Kestrel
        from kestrel_nb.testing import ScriptedModel
        app = Kestrel(model=ScriptedModel(["one"]))
        print(app.run_sync("hi").text)
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("one\n", "", 0)


def test_an_approval_where_nobody_can_answer_is_declined() -> None:
    done = script(
        """
        from kestrel_nb import Kestrel
        from kestrel_nb.testing import Reply, ScriptedModel
        app = Kestrel(model=ScriptedModel([Reply(tool_calls=[("shell", {"command": "echo hi"})]), "done"]))
        app.events.subscribe("tool.skipped", lambda event: print(event.reason))
        print(app.run_sync("hi").text)
        print([record.answered_by for record in app.approvals.history()])
        print(Kestrel().run_sync("run the command `echo hi`").text)
        """
    )
    assert "there is no terminal; pass approve=..." in done.stdout
    assert "the user declined" not in done.stdout
    assert "['policy']" in done.stdout
    assert "because nobody was there to approve it" in done.stdout
    assert "pass approve=... to decide in code" in done.stdout.splitlines()[-1]
    assert done.stderr == ""


def test_keyboard_interrupt_cancels_the_run_and_is_raised() -> None:
    done = script(
        """
        import os, signal, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        from kestrel_nb import Kestrel
        from kestrel_nb.testing import Reply, ScriptedModel
        app = Kestrel(model=ScriptedModel([Reply("late", before=3600), "next"]))
        app.events.subscribe("run.completed", lambda event: print(event.status))
        app.events.subscribe("step.started", lambda event: threading.Timer(
            0.3, os.kill, (os.getpid(), signal.SIGINT)).start() if event.seq < 6 else None)
        try:
            app.run_sync("hi")
        except KeyboardInterrupt:
            print("interrupted")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(app.run_sync("again").text)
        app.close()
        """
    )
    assert done.stdout.splitlines() == ["cancelled", "interrupted", "completed", "next"], done.stderr


def test_from_many_threads_at_once() -> None:
    app = Kestrel(model=ScriptedModel(["x"] * 8))
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(app.run_sync("hi").text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    app.close()
    assert texts == ["x"] * 8


def test_errors_come_through() -> None:
    app = Kestrel(model=ScriptedModel([Reply(error=ModelRequestError("no key"))]))
    with pytest.raises(ModelRequestError, match="no key"):
        app.run_sync("hi")
    with pytest.raises(UsageError):
        app.run_sync(None)  # type: ignore[arg-type]
    app.close()


def test_approve_in_code() -> None:
    replies = [Reply(tool_calls=[("act", {"x": 1})]), "done"]
    tool = FunctionTool("act", lambda args, _: f"did {args['x']}", permission="ask")
    app = Kestrel(model=ScriptedModel(replies), tools=[tool])
    heard: list[Any] = []
    app.events.subscribe("tool.executed", heard.append)
    assert app.run_sync("go", approve=lambda request, signal: True).text == "done"  # type: ignore[arg-type]
    assert [event.content for event in heard] == ["did 1"]
    app.close()


NESTED = """
import asyncio
from kestrel_nb import Kestrel
from kestrel_nb.testing import Reply, ScriptedModel

async def main():
    app = Kestrel(model=ScriptedModel(["one", Reply("two", delay=0.01), "three", "four"]))
    beats = []
    async def beat():
        while True:
            beats.append(1)
            await asyncio.sleep(0.005)
    task = asyncio.create_task(beat())
    await asyncio.sleep(0.02)
    print(app.run_sync("a").text, (await app.ask("b")).text, app.run_sync("c").text)
    assert len(beats) > 3
    assert asyncio.current_task() is not None
    async with asyncio.timeout(5):
        await asyncio.sleep(0)
    print(await asyncio.to_thread(lambda: app.run_sync("d").text))
    task.cancel()
    await app.aclose()
    app.close()

asyncio.run(main())
"""


def test_g04_inside_a_running_loop() -> None:
    done = script(NESTED)
    assert (done.stdout, done.returncode) == ("one two three\nfour\n", 0), done.stderr


def test_keyboard_interrupt_inside_a_running_loop() -> None:
    done = script(
        """
        import asyncio, os, signal, threading
        from kestrel_nb import Kestrel
        from kestrel_nb.testing import Reply, ScriptedModel

        async def main():
            signal.signal(signal.SIGINT, signal.default_int_handler)
            app = Kestrel(model=ScriptedModel([Reply("late", before=3600), "next"]))
            app.events.subscribe("run.completed", lambda event: print(event.status))
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                app.run_sync("hi")
            except KeyboardInterrupt:
                print("interrupted")
            print((await app.ask("again")).text)
            await app.aclose()

        asyncio.run(main())
        """
    )
    assert done.stdout.splitlines() == ["cancelled", "interrupted", "completed", "next"], done.stderr


def test_nothing_is_patched_before_a_call_inside_a_loop() -> None:
    done = script(
        """
        import asyncio, sys
        from kestrel_nb import Kestrel
        from kestrel_nb.testing import ScriptedModel
        app = Kestrel(model=ScriptedModel(["one", "two"]))
        app.run_sync("hi")
        asyncio.run(app.ask("hi"))
        print([name for name in sys.modules if name.startswith("nest_asyncio")], asyncio.run.__module__)
        app.close()
        """
    )
    assert done.stdout == "[] asyncio.runners\n", done.stderr
