"""``%kestrel help``, and the docs that ``%kestrel?`` and ``%%kestrel?`` show: all from the tables of words."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap

from ..protocol.errors import UsageError
from ..protocol.suggest import suggestion
from .cell import BY_NAME, OPTIONS, Option, option_hint
from .command import Command

Commands = Mapping[str, Command]
LEFT = 32  # characters of the first column
MOST = 110  # of a line
EXAMPLES = {
    "%%kestrel": """Send the text of the cell to an agent, and show its run below the cell.

    %%kestrel -o answer
    Which columns of {df} have gaps?

{df} puts the schema of your variable into the request; {df:head 5}, {df:describe} and {df:full} say more of it.
""",
    "%kestrel": """Work with agents, models, tools, sessions and questions; each word returns an object.

    %kestrel models
    %kestrel use demo
    %kestrel help approve
""",
}


def overview(commands: Commands) -> str:
    """Every option and every word, one line each."""
    options = [(", ".join(option.names) + _value(option), option.help) for option in OPTIONS]
    words = [(f"{name} {command.usage}".rstrip(), command.help) for name, command in commands.items()]
    return "\n".join(
        [
            "%%kestrel [options], with the request below it, runs an agent in the cell:",
            *_columns(options),
            "%kestrel WORD:",
            *_columns(words),
        ]
    )


def docs(magic: str, commands: Commands) -> str:
    """The docstring of ``%%kestrel`` or ``%kestrel``."""
    return f"{EXAMPLES[magic]}\n{overview(commands)}\n"


def help_for(word: str, commands: Commands) -> str:
    """One word of ``%kestrel`` or one option of ``%%kestrel``. Raises UsageError that names the nearest."""
    bare = word.removeprefix("%kestrel").strip()
    if word.lstrip("%") == "kestrel":
        return overview(commands)
    option = BY_NAME.get(bare) or BY_NAME.get(f"--{bare}")
    if bare in commands:
        command = commands[bare]
        lines = [f"%kestrel {bare} {command.usage}".rstrip(), f"    {command.help}", *_columns(list(command.more))]
        return "\n".join(lines)
    if option:
        return f"%%kestrel {', '.join(option.names)}{_value(option)}\n    {option.help}"
    raise UsageError(unknown_word(bare, commands))


def unknown_word(word: str, commands: Commands) -> str:
    """A sentence that names the nearest word or option, or says what there is."""
    if word.startswith("-"):
        return f"no option {word}; {option_hint(word)}"
    hint = suggestion(word, commands, f"there are: {', '.join(commands)}", shape="%kestrel {}")
    return f'no command "{word}"; {hint}'


def _value(option: Option) -> str:
    return f" {option.value}" if option.value else ""


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    """Two columns; what is too long for the first stands on a line of its own, and the second is wrapped."""
    width = max((len(left) for left, _ in rows if len(left) <= LEFT), default=0)
    lines = []
    for left, right in rows:
        wrapped = wrap(right, max(MOST - width - 6, 40), break_long_words=False, break_on_hyphens=False)
        head, *rest = wrapped if len(left) <= width else ["", *wrapped]
        lines.append(f"    {left:<{width}}  {head}".rstrip())
        lines += [f"    {'':<{width}}  {line}" for line in rest]
    return lines
