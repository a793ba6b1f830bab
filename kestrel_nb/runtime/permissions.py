"""May this call run? The decision from rules and the tool's default, and what a rule's ``match`` means.

A rule that lets calls run is read narrowly, one that asks or denies is read widely, and where a call can't be
compared with a rule at all the answer is to ask:

* Shell tools (those with a ``command`` argument). ``match`` is compared word by word, each word a glob. A command
  with anything that a shell gives a meaning (quotes, globs, ``; & | $ ~ #``, braces, newlines ...) can't be compared.
  For a rule that lets run: ``git status`` is just that; a ``*`` at the end takes any number of further words, but no
  option, no absolute path and no ``..``. Options count only where the rule spells them: ``git log --oneline -5``
  needs a rule that says ``--oneline -5``, and ``--format=*`` leaves only the value open. Extra variables, another
  folder and the like beside the command can't be compared either. A rule that asks or denies also finds its words
  among others: ``git push`` speaks about ``git -C x push --force`` too.
* Other tools. ``match`` is a glob (its ``*`` also crosses ``/``) over the first string argument in the schema's order.
  A path is compared in its plain form; one with ``..`` never lets run. In a URL the part before the path is compared
  by itself, so ``https://*.example.org/*`` means hosts.

``@changing`` as a rule's tool means every tool that is not marked ``read_only``: a tool that nobody marked asks, or is
refused, where such a rule says so. Rules that can't be read may deny anything, so they make every call ask.

No rule is shipped that lets commands run: what ``git`` and its like may start depends on files in the folder.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal
from urllib.parse import unquote

from ..protocol.messages import JsonObject, ToolCallPart
from ..protocol.sessions import PermissionRule
from ..protocol.tools import PermissionDecision, ToolPermission, ToolSchema
from .call_data import copied
from .tools import JudgingTool, Tool, ToolSession

PermissionResolver = Callable[[Tool, ToolCallPart, ToolSession], PermissionDecision | Awaitable[PermissionDecision]]

# Characters that no shell reads as syntax. Everything else makes a command incomparable.
_PLAIN_COMMAND = re.compile(r"[\w@+=:,./ \t-]+")
# Programs whose arguments are the command: what they run can't be told from the first word.
_WRAPPERS = frozenset(
    ("sudo", "doas", "su", "runuser", "pkexec", "env", "nice", "ionice", "chrt", "taskset", "nohup", "setsid",
     "stdbuf", "time", "timeout", "watch", "xargs", "parallel", "find", "exec", "command", "builtin", "eval",
     "source", ".", "coproc", "trap", "sh", "ash", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "pwsh",
     "busybox", "toybox", "chroot", "unshare", "nsenter", "flock", "script", "strace", "ltrace", "ssh", "systemd-run",
     "start")
)  # fmt: skip
_GLOB = re.compile(r"[*?\[]")

CHANGING = "@changing"  # as a rule's tool: whatever is not marked read_only. No tool can have this name


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRules(PermissionRule):
    """Stands for rules that can't be read: one of them may deny any call, so nothing runs unasked."""

    tool: str = "*"
    action: PermissionDecision = "deny"
    scope: Literal["session", "notebook", "user"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRule(PermissionRule):
    """Comes with a model that is often wrong: its calls ask. It stands before all others, so any of them may differ."""

    tool: str = "*"
    action: PermissionDecision = "ask"


def default_permission(tool: Tool, arguments: JsonObject) -> ToolPermission | None:
    """What ``tool`` itself says about a call with these valid arguments; None where it says the same of every call."""
    if not (hasattr(tool, "permission_for") and isinstance(tool, JudgingTool)):  # the first look is the quick one
        return None
    try:
        answer: object = tool.permission_for(copied(arguments))
    except (Exception, SystemExit):  # who can't tell asks
        return "ask"
    if inspect.iscoroutine(answer):
        answer.close()  # the question is for a plain function
    return "auto" if isinstance(answer, str) and answer == "auto" else "ask"


def decide(
    rules: Iterable[PermissionRule],
    schema: ToolSchema,
    arguments: JsonObject,
    *,
    default: ToolPermission | None = None,
) -> tuple[PermissionDecision, str, PermissionRule | None]:
    """The decision, its reason in a few words for a person, and the rule behind it (None: the tool's default).

    ``default`` is what the tool says about this call, where that differs from call to call. The last rule that matches
    wins, but a deny is never overridden. A call that can't be compared with a rule that asks or denies never runs
    unasked because of an earlier rule or the default.
    """
    winner: PermissionRule | None = None
    doubt: PermissionRule | None = None
    for rule in rules:
        answer = _compare(rule, schema, arguments)
        if answer is None and rule.action != "auto":
            if doubt is None or doubt.action == "ask":
                doubt = rule
        elif answer and rule.action == "deny":
            return "deny", f"denied by {named(rule)}", rule
        elif answer:
            winner = rule
            if doubt is not None and doubt.action == "ask":
                doubt = None  # an earlier question is settled by a later rule, like any other
    decision: PermissionDecision = winner.action if winner else default or schema.permission
    if doubt is not None and decision == "auto":
        return "ask", _doubtful(doubt), doubt
    if winner is not None:
        return decision, named(winner), winner
    does = _DEFAULTS[schema.permission] if default is None else _JUDGED[default]
    return decision, f"`{schema.name}` {does} (the tool's default)", None


_DEFAULTS = {"auto": "runs by itself", "ask": "always asks"}
_JUDGED = {"auto": "runs such a call by itself", "ask": "asks for such a call"}


_OWNERS = {"session": "the rule", "notebook": "the notebook's rule", "user": "the user's rule"}


def named(rule: PermissionRule) -> str:
    """The rule in a few words."""
    if isinstance(rule, ModelRule):
        return "every call of this model asks"
    match = f" for `{rule.match}`" if rule.match is not None else ""
    return f"{_OWNERS[rule.scope]} `{rule.tool}: {rule.action}`{match}"


def _doubtful(rule: PermissionRule) -> str:
    if isinstance(rule, UnreadableRules):
        return "the user's rules can't be read; %kestrel policy says why"
    return f"the call can't be compared with {named(rule)}"


def matches(rule: PermissionRule, schema: ToolSchema, arguments: JsonObject) -> bool:
    """True when ``rule`` speaks about this call for sure."""
    return _compare(rule, schema, arguments) is True


def concerns_tool(rule: PermissionRule, schema: ToolSchema) -> bool:
    """True when ``rule`` speaks about calls of this tool, whatever they say."""
    if rule.tool == CHANGING:
        return schema.read_only is not True
    return rule.tool in ("*", schema.name)


def _compare(rule: PermissionRule, schema: ToolSchema, arguments: JsonObject) -> bool | None:
    """True or False; None when the call can't be compared with the rule."""
    if not concerns_tool(rule, schema):
        return False
    if isinstance(rule, UnreadableRules):
        return None
    if rule.match is None:
        return True
    if "command" in schema.parameters.get("properties", {}):
        return _compare_command(rule.match, arguments, lenient=rule.action != "auto")
    value = _first_string(schema, arguments)
    if value is None:
        return None
    if rule.action == "auto":
        return _allows(rule.match, value)
    return _concerns(rule.match, value)


# ---- commands ---------------------------------------------------------------------------------------------------


def _compare_command(match: str, arguments: JsonObject, *, lenient: bool) -> bool | None:
    if lenient and match.strip() == "*":
        return True
    command = arguments.get("command")
    if not isinstance(command, str) or not _PLAIN_COMMAND.fullmatch(command):
        return None
    words, patterns = command.split(), match.split()
    if not words or "=" in words[0]:  # a variable in front of the command
        return None
    if lenient:
        return _words_concern(patterns, words) or (None if _program(words[0]) in _WRAPPERS else False)
    if not all(_is_harmless(name, value) for name, value in arguments.items() if name != "command"):
        return None
    return _words_allow(patterns, words)


def _is_harmless(name: str, value: Any) -> bool:
    """True for what changes neither the program nor where it works, such as a time limit."""
    if value is None or isinstance(value, (bool, int, float)):
        return True
    return value in ("", ".") if name == "cwd" else value in ({}, [], "")


def _words_allow(patterns: list[str], words: list[str]) -> bool:
    open_end = len(patterns) > 1 and patterns[-1] == "*"
    fixed = patterns[:-1] if open_end else patterns
    if not fixed or len(words) < len(fixed) or (len(words) > len(fixed) and not open_end):
        return False
    if not all(_word_allows(pattern, word) for pattern, word in zip(fixed, words, strict=False)):
        return False
    return all(_word_allows("*", word) for word in words[len(fixed) :])


def _word_allows(pattern: str, word: str) -> bool:
    if pattern == word:
        return True
    if word.startswith("-"):
        option, has_value, value = pattern.partition("=")
        name, _, given = word.partition("=")
        return bool(has_value) and option == name and fnmatchcase(given, value) and _stays_inside(given)
    return fnmatchcase(word, pattern) and (not _GLOB.search(pattern) or _stays_inside(word))


def _stays_inside(word: str) -> bool:
    values = re.split("[=:]", word)
    return not any(value.startswith("/") or ".." in value.split("/") for value in values)


def _words_concern(patterns: list[str], words: list[str]) -> bool:
    """The wide reading: the program, under any path and in any case, and the further words in this order among
    others. What follows a ``=`` is also a word: ``git -c alias.p=push p`` pushes."""
    if not patterns:
        return False
    program = patterns[0].casefold()
    if not any(fnmatchcase(name, program) for name in (words[0].casefold(), _program(words[0]))):
        return False
    rest = iter([part for word in words[1:] for part in dict.fromkeys((word, word.rpartition("=")[2]))])
    wanted = patterns[1:-1] if patterns[-1] == "*" else patterns[1:]
    return all(any(fnmatchcase(word, pattern) for word in rest) for pattern in wanted)


def _program(word: str) -> str:
    """The name of the program, as file systems that know no case tell it."""
    return posixpath.basename(word).casefold().removesuffix(".exe")


# ---- paths, addresses and other first arguments -----------------------------------------------------------------


def _first_string(schema: ToolSchema, arguments: JsonObject) -> str | None:
    properties: Mapping[str, Any] = schema.parameters.get("properties", {})
    values = (arguments.get(name) for name in (*properties, *arguments))
    return next((value for value in values if isinstance(value, str)), None)


def _allows(pattern: str, value: str) -> bool:
    if any(ord(character) < 32 or character == "\x7f" for character in value):
        return False
    if "://" in value:
        return _address_allows(pattern, value)
    if ".." in re.split(r"[/\\]", value):
        return False
    if re.match(r"[/~\\]|[A-Za-z]:", value) and pattern != "*" and not pattern.startswith(value[0]):
        return False
    return fnmatchcase(_plain_path(value), _plain_path(pattern))


def _address_allows(pattern: str, address: str) -> bool:
    if re.search(r"[\\\s]", address) or ".." in unquote(address).split("/"):
        return False
    if pattern == "*":
        return True
    scheme, _, rest = address.partition("://")
    host, path = _split_host(rest)
    wanted_scheme, has_scheme, wanted_rest = pattern.partition("://")
    wanted_host, wanted_path = _split_host(wanted_rest)
    if not has_scheme or "@" in host:
        return False
    same_host = fnmatchcase(host.lower(), wanted_host.lower())
    return fnmatchcase(scheme.lower(), wanted_scheme.lower()) and same_host and fnmatchcase(path, wanted_path)


def _split_host(rest: str) -> tuple[str, str]:
    end = min((rest.find(mark) for mark in "/?#" if mark in rest), default=len(rest))
    return rest[:end], rest[end:] or "/"


def _concerns(pattern: str, value: str) -> bool:
    """The wide reading: the plain path or any end of it that begins a name, in any case."""
    pattern = pattern.casefold()
    plain = _plain_path(value.replace("\\", "/")).casefold()
    ends = [plain[index + 1 :] for index, character in enumerate(plain[:4096]) if character == "/"]
    return any(fnmatchcase(text, pattern) for text in (value.casefold(), plain, *ends))


def _plain_path(path: str) -> str:
    """``./a//b/`` as ``a/b``; a pattern keeps what its ``*`` needs."""
    if "://" in path or path in ("", "."):
        return path
    return posixpath.normpath(path)
