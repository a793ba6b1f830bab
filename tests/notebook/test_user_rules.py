"""The user's rules in their file: shared by kernels, never lost, never read as less than they say."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb.notebook.rule_book import RuleBook
from kestrel_nb.notebook.user_rules import MAX_BYTES, MAX_RULES, UserRules
from kestrel_nb.protocol.errors import KestrelError, StoreError, UsageError
from kestrel_nb.protocol.sessions import PermissionRule
from kestrel_nb.runtime.file_disk import Disk
from kestrel_nb.runtime.permissions import UnreadableRules

DENY = PermissionRule(tool="shell", action="deny", match="git push", scope="user")
AUTO = PermissionRule(tool="grep", action="auto", scope="user")
ELSEWHERE = "/nonexistent/workspace"
ADD = """
import sys
from dataclasses import replace
from kestrel_nb.notebook.user_rules import UserRules
from kestrel_nb.protocol.sessions import PermissionRule
rules = UserRules(lambda: sys.argv[1])
for number in range(15):
    rule = PermissionRule(tool=f"{sys.argv[2]}_{number}", action="deny", scope="user")
    rules.change(lambda old: (*old, rule))
"""


def rules_in(folder: Path) -> UserRules:
    return UserRules(lambda: str(folder))


def test_without_a_file_there_are_none_and_nothing_is_made(tmp_path: Path) -> None:
    rules = rules_in(tmp_path / "deep" / "er")
    assert rules.rules(ELSEWHERE) == ()
    assert rules.problem == ""
    assert not (tmp_path / "deep").exists()


def test_a_change_is_one_small_file_for_this_user_alone(tmp_path: Path) -> None:
    rules = rules_in(tmp_path / "home")
    assert rules.change(lambda old: (*old, DENY, AUTO)) == (DENY, AUTO)
    path = Path(rules.path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {
        "version": 1,
        "kind": "rules",
        "rules": [{"tool": "shell", "action": "deny", "match": "git push"}, {"tool": "grep", "action": "auto"}],
    }
    assert rules_in(tmp_path / "home").rules(ELSEWHERE) == (DENY, AUTO)
    assert not list(path.parent.glob("*.tmp"))


def test_a_change_by_another_kernel_is_seen_at_once(tmp_path: Path) -> None:
    mine, other = rules_in(tmp_path), rules_in(tmp_path)
    mine.change(lambda old: (DENY,))
    assert other.rules(ELSEWHERE) == (DENY,)
    other.change(lambda old: (*old, AUTO))
    assert mine.rules(ELSEWHERE) == (DENY, AUTO)
    mine.change(lambda old: ())
    assert other.rules(ELSEWHERE) == ()


def test_kernels_that_change_it_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    children = [subprocess.Popen([sys.executable, "-c", ADD, str(tmp_path), name]) for name in ("a", "b", "c")]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    names = {rule.tool for rule in rules_in(tmp_path).rules(ELSEWHERE)}
    assert names == {f"{name}_{number}" for name in "abc" for number in range(15)}


BAD = {
    "empty": b"",
    "torn": b'{"version": 1, "kind": "rules", "rules": [{"tool": "she',
    "no JSON": b"\xff\xfe",
    "another kind": b'{"version": 1, "kind": "session", "rules": []}',
    "a list": b"[]",
    "no rules": b'{"version": 1, "kind": "rules"}',
    "newer": b'{"version": 99, "kind": "rules", "rules": []}',
    "an action of later": b'{"version": 1, "kind": "rules", "rules": [{"tool": "shell", "action": "maybe"}]}',
    "no action": b'{"version": 1, "kind": "rules", "rules": [{"tool": "shell"}]}',
    "a field of later": b'{"version": 1, "kind": "rules", "rules": [{"tool": "x", "action": "auto", "until": "noon"}]}',
    "a word of later": b'{"version": 1, "kind": "rules", "rules": [], "mode": "strict"}',
    "no name": b'{"version": 1, "kind": "rules", "rules": [{"tool": "write file", "action": "deny"}]}',
    "never matches": b'{"version": 1, "kind": "rules", "rules": [{"tool": "a", "action": "auto", "match": ""}]}',
    "a number": b'{"version": 1, "kind": "rules", "rules": [{"tool": 7, "action": "deny"}]}',
    "NaN": b'{"version": NaN, "kind": "rules", "rules": []}',
    "two lists": b'{"version": 1, "kind": "rules", "rules": [{"tool": "x", "action": "deny"}], "rules": []}',
    "two actions": b'{"version": 1, "kind": "rules", "rules": [{"tool": "x", "action": "deny", "action": "auto"}]}',
    "deep": b"[" * 100_000,
    "large": b" " * (MAX_BYTES + 1),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cant_be_read_is_kept_and_everything_asks(tmp_path: Path, name: str) -> None:
    rules = rules_in(tmp_path)
    path = tmp_path / "rules.json"
    path.write_bytes(BAD[name])
    assert rules.rules(ELSEWHERE) == (UnreadableRules(),)
    assert str(path) in rules.problem
    assert "\n" not in rules.problem
    with pytest.raises(UsageError, match="nothing was changed") as caught:
        rules.change(lambda old: (*old, DENY))
    assert str(path) in str(caught.value)
    assert path.read_bytes() == BAD[name]
    path.unlink()
    assert rules.change(lambda old: (*old, DENY)) == (DENY,)


@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
def test_only_a_plain_file_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "rules.json"
    if kind == "link":
        (tmp_path / "real").write_text('{"version": 1, "kind": "rules", "rules": []}')
        path.symlink_to(tmp_path / "real")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    rules = rules_in(tmp_path)
    assert rules.rules(ELSEWHERE) == (UnreadableRules(),)
    with pytest.raises(KestrelError):
        rules.change(lambda old: (DENY,))


def test_a_file_that_was_good_and_broke_is_not_remembered(tmp_path: Path) -> None:
    rules = rules_in(tmp_path)
    rules.change(lambda old: (AUTO,))
    assert rules.rules(ELSEWHERE) == (AUTO,)
    (tmp_path / "rules.json").write_bytes(b"{")
    assert rules.rules(ELSEWHERE) == (UnreadableRules(),)
    assert rules.rules(ELSEWHERE) == (UnreadableRules(),)


def test_the_number_of_rules_is_bounded(tmp_path: Path) -> None:
    rules = rules_in(tmp_path)
    rules.change(lambda old: (DENY,))
    many = tuple(PermissionRule(tool=f"t{number}", action="ask") for number in range(MAX_RULES + 1))
    with pytest.raises(UsageError, match="at most"):
        rules.change(lambda old: many)
    long = tuple(PermissionRule(tool="t", action="ask", match="x" * 999 + str(number)) for number in range(400))
    with pytest.raises(UsageError, match="too long"):
        rules.change(lambda old: long)
    assert rules.rules(ELSEWHERE) == (DENY,)


def test_a_full_disk_leaves_the_old_rules(tmp_path: Path) -> None:
    class Full(Disk):
        def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            if function is os.replace:
                raise OSError(28, "No space left on device")
            return super().call(function, *args, **kwargs)

    rules_in(tmp_path).change(lambda old: (DENY,))
    with pytest.raises(StoreError, match="free some space"):
        UserRules(lambda: str(tmp_path), Full()).change(lambda old: ())
    assert rules_in(tmp_path).rules(ELSEWHERE) == (DENY,)
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(("inside", "counted"), [("", (DENY,)), ("deep/er", (DENY,)), (None, (DENY, AUTO))])
def test_in_the_workspace_rules_only_make_it_stricter(tmp_path: Path, inside: str | None, counted: Any) -> None:
    workspace = tmp_path / "workspace"
    folder = tmp_path / "workspace2" if inside is None else workspace / inside
    folder.mkdir(parents=True)
    workspace.mkdir(exist_ok=True)
    (tmp_path / "alias").symlink_to(workspace)
    rules = rules_in(folder)
    rules.change(lambda old: (DENY, AUTO))
    assert rules.rules(str(workspace)) == rules.rules(str(tmp_path / "alias")) == counted
    assert rules.left_out(str(workspace)) == 2 - len(counted)


def test_a_book_says_what_a_person_should_know(tmp_path: Path) -> None:
    book = RuleBook(lambda: str(tmp_path))
    assert book.news() == []
    (tmp_path / "rules.json").write_bytes(b"{")
    assert len(book.news()) == 1


def test_a_rule_that_is_said_again_becomes_the_last_one(tmp_path: Path) -> None:
    book = RuleBook(lambda: str(tmp_path))
    for scope in ("notebook", "user"):
        rules = [PermissionRule(tool="t", action=action, scope=scope) for action in ("auto", "ask")]
        for rule in (*rules, rules[0], rules[0]):
            book.put(rule, None)
        found = book.notebook if scope == "notebook" else book.user.rules(ELSEWHERE)
        assert found == (rules[1], rules[0])
        assert book.take(rules[1], None)
        assert not book.take(rules[1], None)
