"""The permission rules of this kernel: the user's, those of the notebook, and those of the session at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal
from weakref import WeakKeyDictionary

from ..app import Kestrel
from ..protocol.errors import UsageError
from ..protocol.sessions import PermissionRule
from ..runtime.manager import SessionManager
from ..runtime.permissions import UnreadableRules
from ..runtime.session import AgentSession
from ..sandbox.closed import close_off
from .user_rules import Rules, UserRules

Scope = Literal["session", "notebook", "user"]
SCOPES: tuple[Scope, ...] = ("session", "notebook", "user")


@dataclass(frozen=True, slots=True)
class Numbered:
    """A rule in force. ``owner`` says whose it is; rules of the application were given in code."""

    number: int
    rule: PermissionRule
    owner: Literal["user", "application", "notebook", "session"]


class RuleBook:
    """``user`` are the rules in the user's file, ``notebook`` those of this kernel, for every application it uses."""

    def __init__(self, folder: Callable[[], str]) -> None:
        self.user = UserRules(folder)
        self.notebook: Rules = ()
        self._apps: WeakKeyDictionary[Kestrel, Callable[[], None]] = WeakKeyDictionary()
        self._told: dict[int, PermissionRule] = {}

    def attach(self, app: Kestrel) -> None:
        """Let ``app`` obey the rules from now on. No file tool opens them, or the folder they lie in."""
        for place in (self.user.folder, *self.user.files):
            close_off(place)
        if app not in self._apps:
            workspace = app.workspace
            self._apps[app] = app.sessions.add_rules(lambda: (*self.user.rules(workspace), *self.notebook))

    def detach(self) -> None:
        """Let every application go its own way: the notebook's state ends."""
        for dispose in self._apps.values():
            dispose()
        self._apps.clear()

    def news(self) -> list[str]:
        """What a person should know before a run, one sentence each."""
        problem = self.user.problem
        return [problem] if problem else []

    def numbered(self, where: AgentSession | SessionManager) -> list[Numbered]:
        """The rules in force in a session, or in each that will be made, in their order; numbers begin at 1."""
        rules = where.rules
        first_own = len(rules) - (len(where.own_rules) if isinstance(where, AgentSession) else 0)
        found = []
        for index, rule in enumerate(rules):
            own = index >= first_own
            found.append(Numbered(index + 1, rule, "session" if own else self._owner(rule)))
        return found

    def _owner(self, rule: PermissionRule) -> Literal["user", "application", "notebook"]:
        if isinstance(rule, UnreadableRules) or (rule.scope == "user"):
            return "user"
        return "notebook" if rule in self.notebook else "application"

    # ---- changing them ----------------------------------------------------------------------------------------

    def put(self, rule: PermissionRule, session: AgentSession | None) -> None:
        """Add ``rule`` to its scope as the last one there. ``session`` is for rules of the session.

        Raises what ``UserRules.change`` and ``AgentSession.set_rules`` raise.
        """

        def last(rules: Rules) -> Rules:
            return (*(known for known in rules if known != rule), rule)

        self._edit(rule.scope, last, session)

    def take(self, rule: PermissionRule, session: AgentSession | None) -> bool:
        """Remove ``rule`` from its scope; False when it is not there. Raises as ``put``."""
        there = False

        def without(rules: Rules) -> Rules:
            nonlocal there
            there = rule in rules
            return tuple(known for known in rules if known != rule)

        self._edit(rule.scope, without, session)
        return there

    def _edit(self, scope: Scope, edit: Callable[[Rules], Rules], session: AgentSession | None) -> None:
        if scope == "user":
            self.user.change(edit)
        elif scope == "notebook":
            self.notebook = edit(self.notebook)
        elif session is not None:
            new = edit(session.own_rules)
            if new != session.own_rules:
                session.set_rules(new)

    # ---- numbers that a person was told -----------------------------------------------------------------------

    def tell_all(self, rules: list[Numbered]) -> None:
        """A person sees these numbers now."""
        self._told = {item.number: item.rule for item in rules}

    def tell(self, item: Numbered) -> None:
        """A person sees this number now."""
        self._told[item.number] = item.rule

    def by_number(self, number: int, rules: list[Numbered]) -> Numbered:
        """The rule ``number``. Raises UsageError when there is none, or when it is not the one a person saw."""
        if not 1 <= number <= len(rules):
            known = f"1 to {len(rules)}" if rules else "none"
            raise UsageError(f"no rule {number}; there are: {known}; %kestrel policy shows them")
        item = rules[number - 1]
        if number in self._told and self._told[number] != item.rule:
            raise UsageError(
                f"the numbers of the rules have changed since; look again: %kestrel policy (rule {number})"
            )
        return item


def scoped(rule: PermissionRule, scope: Scope) -> PermissionRule:
    """The same rule in another scope."""
    return replace(rule, scope=scope)
