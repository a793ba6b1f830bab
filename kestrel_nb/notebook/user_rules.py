"""The user's own permission rules: one JSON file beside the session store, for every notebook of this user.

    {"version": 1, "kind": "rules", "rules": [{"tool": "shell", "action": "deny", "match": "git push"}]}

The file is read for each question, so a change by another kernel holds at once. What can't be read is never
overwritten, and while it can't be, nothing runs unasked. A file that lies where the agents' file tools can write may
only make things stricter: its ``auto`` rules don't count.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..protocol.codec import from_document, loads, to_document
from ..protocol.errors import CodecError, StoreError, UsageError
from ..protocol.sessions import PermissionRule
from ..runtime import file_lease
from ..runtime.file_disk import Disk, Unreadable, explained
from ..runtime.permissions import UnreadableRules
from ..runtime.rule_checks import rule_problem
from .visible import visible

NAME = "rules.json"
LOCK = "rules.lock"
MAX_BYTES = 262_144  # far above what a person writes, small enough to read before every call
MAX_RULES = 500
_TRIES = 100  # whoever changes the file holds the lock for some milliseconds
_PAUSE_SECONDS = 0.02
_KEYS = frozenset(("tool", "action", "match"))

Rules = tuple[PermissionRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RuleFile:
    rules: Rules


class UserRules:
    """The rules in the file. ``folder`` is asked once, at the first use."""

    def __init__(self, folder: Callable[[], str], disk: Disk | None = None) -> None:
        self._find_folder = folder
        self._folder: str | None = None
        self._disk = disk or Disk()
        self._known: tuple[bytes, Rules] | None = None
        self._changing = threading.Lock()

    @property
    def folder(self) -> str:
        """Where the file lies."""
        if self._folder is None:
            self._folder = os.path.abspath(self._find_folder())
        return self._folder

    @property
    def path(self) -> str:
        """The file, there or not."""
        return os.path.join(self.folder, NAME)

    @property
    def files(self) -> tuple[str, str]:
        """All files of the rules, there or not."""
        return self.path, self._lock_path

    @property
    def problem(self) -> str:
        """Why the file can't be read, "" when it can: a sentence that names the file."""
        try:
            self._read()
        except Unreadable as error:
            return self._about(error)
        return ""

    def rules(self, workspace: str) -> Rules:
        """The rules as they are now, for agents that work in ``workspace``. Never raises."""
        try:
            rules = self._read()
        except Unreadable:
            return (UnreadableRules(),)
        if self.lies_in(workspace):
            return tuple(rule for rule in rules if rule.action != "auto")
        return rules

    def left_out(self, workspace: str) -> int:
        """How many rules don't count in ``workspace``, because they let run."""
        try:
            return sum(rule.action == "auto" for rule in self._read()) if self.lies_in(workspace) else 0
        except Unreadable:
            return 0

    def lies_in(self, workspace: str) -> bool:
        """True when file tools that stay in ``workspace`` could write the file."""
        inside, place = os.path.realpath(workspace), os.path.realpath(self.folder)
        return place == inside or place.startswith(os.path.join(inside, ""))

    def change(self, edit: Callable[[Rules], Iterable[PermissionRule]]) -> Rules:
        """Replace the rules by what ``edit`` makes of them, so that two kernels lose nothing; the new ones.

        Raises UsageError when the file can't be read or would hold too much, StoreError when the disk fails. Nothing
        has changed then.
        """
        with self._changing, explained("your rules could not be stored"):
            self._disk.make_folder(self.folder)
            self._lock()
            try:
                old = self._read()
                new = tuple(replace(rule, scope="user") for rule in edit(old))
                if new != old:
                    self._disk.put(self.folder, NAME, _encoded(new))
            except Unreadable as error:
                raise UsageError(f"{self._about(error)}; nothing was changed: mend the file or move it away") from None
            finally:
                file_lease.release(self._lock_path, id(self))
        return new

    @property
    def _lock_path(self) -> str:
        return os.path.join(self.folder, LOCK)

    def _lock(self) -> None:
        for _ in range(_TRIES):
            if file_lease.acquire(self._disk, self._lock_path, id(self)):
                return
            time.sleep(_PAUSE_SECONDS)
        raise StoreError("another kernel is changing your rules; try again in a moment")

    def _about(self, error: Unreadable) -> str:
        return visible(f"your rules in {self.path} can't be read ({error}), so every call asks")

    def _read(self) -> Rules:
        """The rules in the file; none without a file. Raises Unreadable."""
        try:
            status = self._disk.status(self.path)
            if status is not None and status.st_size > MAX_BYTES:
                raise Unreadable(f"larger than {MAX_BYTES:,} bytes")
            found = self._disk.read(self.path)
        except (OSError, ValueError) as error:
            raise Unreadable(getattr(error, "strerror", None) or str(error)) from None
        if found is None:
            return ()
        if self._known is None or found[0] != self._known[0]:
            self._known = (found[0], _decoded(found[0]))
        return self._known[1]


def _encoded(rules: Rules) -> bytes:
    if len(rules) > MAX_RULES:
        raise UsageError(f"there can be {MAX_RULES} rules of yours at most; remove some with %kestrel policy remove")
    plain = tuple(replace(rule, scope="session") for rule in rules)  # the default, which the form leaves out
    data = (json.dumps(to_document("rules", _RuleFile(rules=plain)), indent=1) + "\n").encode("ascii")
    if len(data) > MAX_BYTES:
        raise UsageError("your rules would be too long to be kept; remove some with %kestrel policy remove")
    return data


def _decoded(data: bytes) -> Rules:
    try:
        document = loads(data)
        rules = from_document(_RuleFile, document).rules
    except CodecError as error:
        raise Unreadable(str(error).replace(f"{_RuleFile.__name__}.", "").replace(_RuleFile.__name__, "it")) from None
    json.loads(data, object_pairs_hook=_without_doubles)
    _check(document, rules)
    return tuple(replace(rule, scope="user") for rule in rules)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that stands twice in one object: of two lists of rules one would be lost without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name in found if sum(other == name for other, _ in pairs) > 1)
        raise Unreadable(f'"{twice[:40]}" stands twice in one object')
    return found


def _check(document: Mapping[str, Any], rules: Rules) -> None:
    """Refuse what this version does not know and what could never hold: the person meant something by it."""
    if document.get("kind") != "rules" or set(document) - {"version", "kind", "rules"}:
        raise Unreadable("it has fields that this version does not know")
    for number, (rule, entry) in enumerate(zip(rules, document["rules"], strict=True), 1):
        unknown = sorted(set(entry) - _KEYS)
        problem = f'unknown field "{unknown[0][:40]}"' if unknown else rule_problem(rule, None)
        if problem:
            raise Unreadable(f"rule {number}: {problem}")
    if len(rules) > MAX_RULES:
        raise Unreadable(f"more than {MAX_RULES} rules")
