"""Random patterns, texts and replacements of JavaScript, and what two engines make of them."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from kestrel_nb.sandbox import javascript
from kestrel_nb.sandbox.child import run_child

HERE = Path(__file__).parent
CHARS = (
    "a",
    "b",
    "B",
    "1",
    " ",
    "\n",
    "é",
    "\u212a",
    "ſ",
    "\U0001f600",
    "\ud83d",
    "\ude00",
    "_",
    "\u2028",
    "\0",
    "-",
    "ß",
)
ATOMS = (
    *("a", "b", "B", "1", "é", "ß", "\U0001f600", " ", "-", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"),
    *(r"\n", r"\0", r"\x61", r"\u0061", r"\uD83D", r"\uD83D\uDE00", r"\cJ", r"\1", r"\/"),
    *("[ab]", "[^ab]", r"[\d\s]", r"[^\w]", "[a-z]", "[A-Z]", "[]", "[^]", "[\U0001f600]", r"[\b]"),
)
ASSERTIONS = ("^", "$", r"\b", r"\B")
RARE = (  # these are invalid, or something else, under some of the flags
    *(r"\u{61}", r"\u{1F600}", r"[\u{1F600}]", r"\p{L}", r"\P{L}", r"\p{Lu}", r"\p{Emoji}", r"\p{Script=Greek}"),
    *(r"[\p{L}--[a-z]]", r"[\w&&[ab]]", r"[\q{ab|c}]", r"\p{RGI_Emoji}", "[-a]", r"[\w-a]", "[a-]", "[(]", "[&&]"),
    *(r"\2", r"\k<n>", r"\k<m>", r"\A", r"\Z", r"\-", "{", "}", "]", "a{,2}", "(?i)", "(?P<n>a)", r"\8", r"\c", r"\x6"),
    *(r"\u00", r"\07", r"\101", "(?", "(?<1>a)", "[b-a]", "a{1,2147483648}", "\\"),
)
QUANTIFIERS = ("", "", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "??", "{1,2}?", "{0}")
GROUPS = ("(", "(", "(?:", "(?=", "(?!", "(?<=", "(?<!")
FLAGS = ("", "", "g", "g", "g", "i", "gi", "gm", "gs", "gu", "gu", "giu", "gv", "giv", "y", "gy", "d", "dgimsy")
BAD_FLAGS = ("gg", "z", "uv", "G", "g ")
REPLACED = (
    "x",
    "$",
    "$$",
    "$&",
    "$`",
    "$'",
    "$0",
    "$1",
    "$2",
    "$01",
    "$10",
    "$<n>",
    "$<m>",
    "$<",
    "<",
    ">",
    "$00",
    "$100",
    "\\1",
)


def cases(seed: int, count: int) -> list[dict[str, Any]]:
    """``count`` orders, short enough that no pattern runs for long."""
    chance = random.Random(seed)
    return [_case(chance) for _ in range(count)]


def _case(chance: random.Random) -> dict[str, Any]:
    text = "".join(chance.choices(CHARS, k=chance.randrange(12)))
    replace = "".join(chance.choices(REPLACED, k=chance.randrange(5))) if chance.random() < 0.4 else None
    names = ["n", "m"]
    return {
        "text": text,
        "pattern": _pattern(chance, 3, names),
        "flags": chance.choice(BAD_FLAGS if chance.random() < 0.02 else FLAGS),
        "replace": replace,
        "max_matches": 10_000,
        "max_output": 5_000_000,
    }


def _pattern(chance: random.Random, depth: int, names: list[str]) -> str:
    branches = chance.choices((1, 2), weights=(3, 1))[0]
    return "|".join(
        "".join(_term(chance, depth, names) for _ in range(chance.randrange(1, 4))) for _ in range(branches)
    )


def _term(chance: random.Random, depth: int, names: list[str]) -> str:
    """One atom, group or assertion. Each name is given away once: what it means twice is younger than some engines."""
    kind = chance.random()
    if kind < 0.06:
        return chance.choice(ASSERTIONS)
    if kind < 0.1:
        return chance.choice(RARE) + chance.choice(QUANTIFIERS)
    if not depth or kind < 0.7:
        return chance.choice(ATOMS) + chance.choice(QUANTIFIERS)
    opening = f"(?<{names.pop()}>" if names and chance.random() < 0.2 else chance.choice(GROUPS)
    body = f"{opening}{_pattern(chance, depth - 1, names)})"
    return body if opening.startswith(("(?=", "(?!", "(?<=", "(?<!")) else body + chance.choice(QUANTIFIERS)


async def ours(orders: list[dict[str, Any]], folder: str) -> list[dict[str, Any]]:
    """What the product's own script makes of the orders, in one child. ``folder`` holds the engine."""
    source = Path(javascript.__file__).with_name("javascript_match.js")
    order = {"engine": folder, "source": str(source), "orders": orders}
    limits: dict[str, Any] = {"timeout_s": 60, "memory_bytes": None, "max_bytes": 50_000_000}
    answers: list[dict[str, Any]] = await run_child(HERE / "pattern_worker.py", order, **limits)
    return answers


def nodes(orders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Node makes of them."""
    script = str(HERE / "node_patterns.js")
    run = subprocess.run(["node", script], input=json.dumps(orders).encode(), capture_output=True, timeout=100)
    assert run.returncode == 0, run.stderr.decode()
    answers: list[dict[str, Any]] = json.loads(run.stdout)
    return answers


def is_known(order: dict[str, Any]) -> bool:
    """Whether versions of Node that are in use are known to differ from ECMA-262 here (seen in 20.20.2).

    Under v, ``[^]`` does not match everything there. Under u and v it finds empty matches within a character that has
    two halves, where AdvanceStringIndex would not look.
    """
    if "v" in order["flags"] and "[^]" in order["pattern"]:
        return True
    has_pair = "\U0001f600" in order["text"] or "\ud83d\ude00" in order["text"]
    return has_pair and any(flag in order["flags"] for flag in "uv")


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Equal answers; both engines word their refusals as they like."""
    return "invalid" in ours if "invalid" in theirs else ours == theirs
