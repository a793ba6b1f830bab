"""Commands that open an editor: nobody is there to use it, so they fail at once instead of waiting for the limit."""

from pathlib import Path

import pytest

from kestrel_nb.sandbox.process import minimal_environment, run_command

_REPOSITORY = (
    "git init -q . && git config user.email a@b && git config user.name a && git config core.editor 'sleep 50;' && "
)


@pytest.mark.parametrize(
    "command",
    [
        "$EDITOR f",
        "$VISUAL f",
        f"{_REPOSITORY} git commit --allow-empty",
        f"{_REPOSITORY} git commit -q --allow-empty -m one && git commit --amend --allow-empty",
        f"{_REPOSITORY} git commit -q --allow-empty -m one && git tag -a v1",
    ],
)
async def test_an_editor_is_not_waited_for(tmp_path: Path, command: str) -> None:
    result = await run_command(
        command, cwd=str(tmp_path), timeout_s=20, max_bytes=10_000, environment=minimal_environment()
    )
    assert result.reason == "ended"
    assert result.exit_code != 0
    assert b"editor" in result.stderr or b"git" not in command.encode()


async def test_an_editor_of_the_call_itself_is_used(tmp_path: Path) -> None:
    result = await run_command(
        f"{_REPOSITORY} git commit -q --allow-empty -m one && git commit --amend --allow-empty && git log --oneline",
        cwd=str(tmp_path),
        timeout_s=20,
        max_bytes=10_000,
        environment=minimal_environment({"GIT_EDITOR": "true"}),
    )
    assert (result.reason, result.exit_code) == ("ended", 0)
