"""Tab in ``%kestrel`` lines and ``%%kestrel`` cells. What it offers stands in ``offers``, from the tables themselves.

IPython asks every matcher at each Tab. This one answers in places that are ours, and there alone, so that Python's
names don't appear in prose; elsewhere it says nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult
from IPython.core.inputtransformer2 import make_tokens_by_line

from .cell import BY_NAME, OPTIONS
from .commands import COMMANDS
from .folder_names import file_offers
from .magics import RUNNER, find_cell
from .offers import Offer, Offers, matching, offers_of, option_offers
from .placeholders import placeholder_offers
from .state import NotebookState, state_of
from .variables import user_variables

_OPTIONS_BEGIN = re.compile(r"[ \t]*%%kestrel[ \t]+")
_LINE = re.compile(r"[ \t]*(?:[^\W\d]\w*[ \t]*=[ \t]*)?%kestrel[ \t]+")


class _Nothing(Sequence[SimpleCompletion]):
    """No completion at all. It counts as one, because IPython lets only a matcher that has some silence the others."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[SimpleCompletion]:
        return iter(())

    def __getitem__(self, index: Any) -> Any:
        raise IndexError(index)


def answer(shell: Any, context: CompletionContext) -> SimpleMatcherResult:
    """What Tab offers at ``context``; nothing, and IPython goes on, where the place is none of ours."""
    asked = place_of(context.full_text, context.cursor_line, context.cursor_position)
    if asked is None:
        return {"completions": [], "suppress": False}
    try:
        found = asked(state_of(shell))
    except Exception:  # whatever is strange about the user's text, objects or folders: a traceback helps nobody
        found = Offers()
    shown = [SimpleCompletion(offer.text, type=_about(offer, shell)) for offer in found.items]
    return {
        "completions": shown or _Nothing(),
        "matched_fragment": found.fragment,
        "suppress": True,
        "ordered": True,
    }


def _about(offer: Offer, shell: Any) -> str | None:
    """What stands beside an offer. JupyterLab breaks the line at each space of it, over the lines below."""
    space = "\N{NO-BREAK SPACE}" if hasattr(shell, "kernel") else " "
    return offer.about.replace(" ", space) or None


def place_of(text: str, row: int, column: int) -> Callable[[NotebookState], Offers] | None:
    """What says the offers at a place in a cell, None where it isn't ours. Counted from 0, in characters."""
    lines = text.split("\n")
    before, after = lines[row][:column], lines[row][column:]
    start, cell = find_cell(lines)
    if cell is None:
        words = _words_of_line(lines, start, row, before)
        return None if words is None else partial(command_offers, text=words, after=after)
    if row > start:
        return partial(body_offers, before=before, after=after)
    head = _OPTIONS_BEGIN.match(before)
    return partial(cell_offers, text=before[head.end() :], after=after) if head and row == start else None


def _words_of_line(lines: list[str], start: int, row: int, before: str) -> str | None:
    """What stands between ``%kestrel`` and the cursor; None on other lines, in texts and in other cell magics."""
    first = row
    while first > 0 and lines[first - 1].rstrip().endswith("\\"):
        first -= 1
    text = " ".join([*(line.rstrip().removesuffix("\\") for line in lines[first:row]), before])
    found = _LINE.match(text)
    foreign = lines[start].lstrip().startswith("%%") and not RUNNER.match(lines[start])
    if found is None or foreign:
        return None
    tokens = make_tokens_by_line([*(f"{line}\n" for line in lines[:first]), "%kestrel\n"])
    begins = any(token.string == "%" and token.start == (first + 1, 0) for line in tokens for token in line)
    return text[found.end() :] if begins else None


# ---- the three places ---------------------------------------------------------------------------------------------


def command_offers(state: NotebookState, text: str, after: str = "") -> Offers:
    """``text`` is what follows ``%kestrel``: a word of the table, then what that word takes."""
    words, fragment = split_typed(text)
    if not words:
        return matching(fragment, offers_of("command", state), after)
    command = COMMANDS.get("help" if words[0] in ("-h", "--help") else words[0])
    given = words[1:]
    if command is None or len(given) >= command.most:
        return Offers(fragment)
    switches = _switches(command.completes)
    last = switches.get(given[-1]) if given else None
    if last and last.source and not fragment.startswith("-"):
        return matching(fragment, offers_of(last.source, state), after)
    values = sum(1 for word in given if word in switches and switches[word].source)
    place = sum(1 for word in given if word not in switches) - values
    spec = command.completes[place] if place < len(command.completes) else ""
    fitting = offers_of("|".join(name for name in spec.split("|") if not name.startswith("=-")), state)
    early = fragment.startswith("-")
    left = [name for name, switch in switches.items() if name not in given and (early or place >= switch.place)]
    return matching(fragment, [*fitting, *(Offer(name, "switch") for name in left)], after)


@dataclass(frozen=True, slots=True)
class _Switch:
    """A word of a command that begins with a dash: the place from which it is offered, the source of its value."""

    place: int
    source: str


def _switches(completes: tuple[str, ...]) -> dict[str, _Switch]:
    found: dict[str, _Switch] = {}
    for place, spec in enumerate(completes):
        for word in spec.split("|"):
            if word.startswith("=-"):
                name, _, source = word[1:].partition("=")
                found.setdefault(name, _Switch(place, source))
    return found


def cell_offers(state: NotebookState, text: str, after: str = "") -> Offers:
    """``text`` is what follows ``%%kestrel`` on its line: options, or the value of one."""
    words, fragment = split_typed(text)
    name, equals, value = fragment.partition("=")
    option = BY_NAME.get(name) if equals else BY_NAME.get(words[-1]) if words else None
    if option and option.value and (equals or not fragment.startswith("-")):
        return _values(state, option.completes, option.many, value if equals else fragment, after)
    given = [BY_NAME.get(word.partition("=")[0]) for word in words]
    return matching(fragment, option_offers(option for option in OPTIONS if option not in given), after)


def _values(state: NotebookState, completes: tuple[str, ...], many: bool, typed: str, after: str) -> Offers:
    offers = [offer for spec in completes for offer in offers_of(spec, state)]
    if not many or "," not in typed:
        return matching(typed, offers, after)
    *chosen, last = typed.lstrip("'\"").split(",")
    taken = {name.strip() for name in chosen}
    return matching(last.lstrip(), [offer for offer in offers if offer.text not in taken])


def body_offers(state: NotebookState, before: str, after: str = "") -> Offers:
    """The line of a request up to the cursor: a placeholder that is open, or else the beginning of a file's name."""
    named = {name: value for name, value in user_variables(state.shell).items() if name.isidentifier()}
    found = placeholder_offers(named, before, after)
    if found is not None:
        return found
    return file_offers(state.app.workspace if state.has_app else os.getcwd(), before, after)


def split_typed(text: str) -> tuple[list[str], str]:
    """The words of ``text`` that are complete, and the last one as it was typed, its opening quote too."""
    words: list[str] = []
    word, typed, quote = "", "", ""
    for character in text:
        if not quote and character in " \t":
            if typed:
                words.append(word)
            word, typed = "", ""
            continue
        typed += character
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        else:
            word += character
    return words, typed
