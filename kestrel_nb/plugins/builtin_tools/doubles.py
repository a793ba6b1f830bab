"""The numbers of JavaScript: doubles whose operations never fail, and how they are printed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal

INTEGERS_BELOW = 1e21  # where JavaScript begins to print whole numbers with an exponent


def printed(number: float) -> int | float:
    """``number`` as JavaScript prints it: 1024 and not 1024.0, 18446744073709552000 for 2^64, 0 for -0."""
    whole = number.is_integer() and abs(number) < INTEGERS_BELOW
    return int(Decimal(repr(number))) if whole else number


def power(base: float, exponent: float) -> float:
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):  # JavaScript departs from C here
        return math.nan
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and math.fmod(exponent, 2) else math.inf
    except ValueError:
        if base:
            return math.nan
        return math.copysign(math.inf, base) if abs(math.fmod(exponent, 2)) == 1 else math.inf


def divide(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _real(function: Callable[..., float]) -> Callable[..., float]:
    """``function`` that is not a number where it is not defined."""

    def total(*values: float) -> float:
        try:
            return function(*values)
        except ValueError:
            return math.nan

    return total


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    defined = _real(function)
    return lambda value: defined(value) if value else -math.inf


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    """A rounding that keeps what has no nearest integer, and the sign of zero."""
    return lambda value: math.copysign(function(value), value) if math.isfinite(value) else value


def _half_up(value: float) -> int:
    below = math.floor(value)
    return below + 1 if value - below >= 0.5 else below


def _extreme(pick: Callable[..., float]) -> Callable[..., float]:
    def of(*values: float) -> float:
        if any(map(math.isnan, values)):
            return math.nan
        return pick(values, key=lambda value: (value, math.copysign(1, value)))

    return of


remainder = _real(math.fmod)
FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": _real(math.sqrt),
    "abs": abs,
    "ceil": _whole(math.ceil),
    "floor": _whole(math.floor),
    "round": _whole(_half_up),
    "sin": _real(math.sin),
    "cos": _real(math.cos),
    "tan": _real(math.tan),
    "log": _logarithm(math.log),
    "log2": _logarithm(math.log2),
    "log10": _logarithm(math.log10),
    "min": _extreme(min),
    "max": _extreme(max),
}
CONSTANTS: dict[str, Callable[[], float]] = {"pi": lambda: math.pi, "e": lambda: math.e, "random": random.random}
