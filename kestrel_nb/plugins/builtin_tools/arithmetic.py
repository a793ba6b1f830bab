"""Arithmetic as text: numbers, + - * / % ^, parentheses, a few functions and constants, computed as JavaScript would.

Every number is a double. Nothing here recurses, so the nesting of an expression is bounded by its length alone.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .doubles import CONSTANTS, FUNCTIONS, divide, power, printed, remainder

MAX_LENGTH = 500_000  # characters; half a second or so of work

_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>\*\*|//|[-+*/%^(),])|(?P<space>[ \t\r\n]+)"
)


class ArithmeticFault(ValueError):
    """An expression that has no value. The message says what is wrong, and where: positions count from 1."""


def evaluate(expression: str) -> int | float:
    """The value of ``expression``: an int where JavaScript prints no fraction, otherwise a finite float.

    ``^`` is right-associative and binds tighter than a sign (``-2^2`` is -4), ``%`` keeps the sign of its left side,
    ``round`` rounds halves up, ``log`` is the natural logarithm. Raises ArithmeticFault for what is no expression, and
    for a result that is not a finite number.
    """
    if len(expression) > MAX_LENGTH:
        raise ArithmeticFault(f"the expression is too long: {len(expression):,} characters of at most {MAX_LENGTH:,}")
    return _Reading(expression).value()


@dataclass(frozen=True, slots=True)
class _Operator:
    sign: str
    binds: int
    operands: int
    apply: Callable[..., float]
    from_right: bool = False

    @property
    def shown(self) -> str:
        return f'"{self.sign}"'


_BINARY = {
    operator.sign: operator
    for operator in (
        _Operator("+", 1, 2, lambda left, right: left + right),
        _Operator("-", 1, 2, lambda left, right: left - right),
        _Operator("*", 2, 2, lambda left, right: left * right),
        _Operator("/", 2, 2, divide),
        _Operator("%", 2, 2, remainder),
        _Operator("^", 4, 2, power, from_right=True),
    )
}
_SIGNS = {"-": _Operator("-", 3, 1, lambda value: -value), "+": _Operator("+", 3, 1, lambda value: value)}
_VARIADIC = ("min", "max")
_INSTEAD = {
    "**": "^",
    "×": "*",
    "·": "*",
    "÷": "/",
    "−": "-",
    "–": "-",
    "π": "pi",
    "√": "sqrt( )",
    "²": "^2",
    "³": "^3",
}


@dataclass(slots=True)
class _Open:
    """An open parenthesis, and the function whose arguments it holds."""

    position: int
    function: str = ""
    named_at: int = 0
    arguments: int = 1


@dataclass(slots=True)
class _Reading:
    """One expression on its way to a value: two stacks and one pass (Dijkstra's shunting yard)."""

    text: str
    values: list[float] = field(default_factory=list)
    waiting: list[_Open | tuple[_Operator, int]] = field(default_factory=list)
    fault: str = ""  # where the first value arose that is not finite

    def value(self) -> int | float:
        position, wants_value = 0, True
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self._unknown(position)
            if match.lastgroup != "space":
                wants_value, position = self._take(match, wants_value)
            else:
                position = match.end()
        if wants_value:
            raise ArithmeticFault(self._ended())
        self._reduce(0)
        if self.waiting:
            last = self.waiting[-1]
            assert isinstance(last, _Open)
            raise ArithmeticFault(f'"(" at position {last.position + 1} is not closed')
        result = self.values[0]
        if not math.isfinite(result):
            raise ArithmeticFault(self.fault)
        return printed(result)

    def _take(self, match: re.Match[str], wants_value: bool) -> tuple[bool, int]:
        """One token. Returns whether a value is to follow, and the position after the token."""
        token, at = match.group(), match.start()
        if token in ("**", "//"):
            hint = f'; write "{_INSTEAD[token]}"' if token in _INSTEAD else ""
            raise ArithmeticFault(f'unexpected "{token}" at position {at + 1}{hint}')
        if wants_value:
            return self._operand(match, token, at)
        if match.lastgroup != "sign" or token == "(":
            raise ArithmeticFault(f"expected an operator before {_shown(token)} at position {at + 1}")
        if token == ")":
            self._close(at)
            return False, match.end()
        if token == ",":
            self._next_argument(at)
        else:
            operator = _BINARY[token]
            self._reduce(operator.binds, operator.from_right)
            self.waiting.append((operator, at))
        return True, match.end()

    def _operand(self, match: re.Match[str], token: str, at: int) -> tuple[bool, int]:
        if match.lastgroup == "number":
            self._push(float(token), "the number", at)
        elif match.lastgroup == "name":
            return self._name(token, at, match.end())
        elif token in _SIGNS:
            self.waiting.append((_SIGNS[token], at))
            return True, match.end()
        elif token == "(":
            self.waiting.append(_Open(at))
            return True, match.end()
        else:
            raise ArithmeticFault(f"expected a number before {_shown(token)} at position {at + 1}")
        return False, match.end()

    def _name(self, name: str, at: int, end: int) -> tuple[bool, int]:
        called = _CALL.match(self.text, end)
        if name in FUNCTIONS:
            if called is None:
                raise ArithmeticFault(f"{name} at position {at + 1} is a function: write {name}(...)")
            self.waiting.append(_Open(called.end() - 1, name, at))
            closed = _CLOSE.match(self.text, called.end())
            if closed:
                raise ArithmeticFault(f"{name} at position {at + 1} needs a number between its parentheses")
            return True, called.end()
        if name not in CONSTANTS:
            raise ArithmeticFault(f"unknown name {_shown(name)} at position {at + 1}; {_known(name, bool(called))}")
        if called:
            raise ArithmeticFault(f"{name} at position {at + 1} is a constant: write it without parentheses")
        self.values.append(CONSTANTS[name]())
        return False, end

    def _reduce(self, binds: int, from_right: bool = False) -> None:
        """Apply the waiting operators that come before one that binds as strongly as ``binds``."""
        while self.waiting:
            top = self.waiting[-1]
            if isinstance(top, _Open) or top[0].binds < binds or (from_right and top[0].binds == binds):
                return
            self.waiting.pop()
            operator, at = top
            operands = self.values[-operator.operands :]
            del self.values[-operator.operands :]
            self._push(operator.apply(*operands), operator.shown, at)

    def _close(self, at: int) -> None:
        self._reduce(0)
        opened = self.waiting.pop() if self.waiting else None
        if not isinstance(opened, _Open):
            raise ArithmeticFault(f'")" at position {at + 1} closes nothing')
        if opened.function:
            self._call(opened)

    def _call(self, opened: _Open) -> None:
        name, count = opened.function, opened.arguments
        if count != 1 and name not in _VARIADIC:
            raise ArithmeticFault(f"{name} at position {opened.named_at + 1} takes one number and not {count}")
        arguments = self.values[-count:]
        del self.values[-count:]
        self._push(FUNCTIONS[name](*arguments), name, opened.named_at)

    def _next_argument(self, at: int) -> None:
        self._reduce(0)
        top = self.waiting[-1] if self.waiting else None
        if not isinstance(top, _Open) or not top.function:
            raise ArithmeticFault(f'unexpected "," at position {at + 1}: only functions take several numbers')
        top.arguments += 1

    def _push(self, value: float, what: str, at: int) -> None:
        self.values.append(value)
        if not math.isfinite(value) and not self.fault:
            kind = "real" if math.isnan(value) else "finite"
            self.fault = f"{what} at position {at + 1} gives no {kind} number"

    def _unknown(self, position: int) -> ArithmeticFault:
        character = self.text[position]
        instead = _INSTEAD.get(character)
        hint = f"write {instead}" if instead else "use digits, names, + - * / % ^ ( ) and commas"
        return ArithmeticFault(f"unexpected {_shown(character)} at position {position + 1}; {hint}")

    def _ended(self) -> str:
        return "the expression ends where a number is expected" if self.text.strip() else "the expression is empty"


_CALL = re.compile(r"[ \t\r\n]*\(")
_CLOSE = re.compile(r"[ \t\r\n]*\)")


def _shown(token: str) -> str:
    plain = token[:40].encode("ascii", "backslashreplace").decode()
    return f'"{plain}…"' if len(token) > 40 else f'"{plain}"'


def _known(name: str, called: bool) -> str:
    names = (*FUNCTIONS, *CONSTANTS)
    near = difflib.get_close_matches(name[:20].lower(), names, n=1, cutoff=0.8)
    if near:
        return f"did you mean {near[0]}?"
    return f"functions: {', '.join(FUNCTIONS)}" if called else f"constants: {', '.join(CONSTANTS)}"
