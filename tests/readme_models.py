"""The README's table of providers, made from the table in the code. Run this file to write it into the README."""

from __future__ import annotations

from pathlib import Path

from kestrel_nb.providers.known import PROVIDERS, Provider
from kestrel_nb.providers.local import SMOLLM2

HEADING = "| id | models of | key | another address |\n|---|---|---|---|\n"
README = Path(__file__).parents[1] / "README.md"


def table() -> str:
    """The whole table: the providers in their order, then local ones."""
    local = f"| `local:PATH.gguf`, `local:{SMOLLM2}` | a file on this machine, extra `local` | none | |\n"
    return HEADING + "".join(map(_row, PROVIDERS.values())) + local


def _row(provider: Provider) -> str:
    key = " or ".join(f"`{name}`" for name in provider.key_variables)
    key = key if provider.needs_key else f"none, or {key}"
    places = [*(f"`{name}`" for name in provider.url_variables)]
    places += [f"`{provider.name}+URL:MODEL`"] if provider.compatible else []
    return f"| `{provider.name}:MODEL` | {provider.title} | {key} | {', '.join(places)} |\n"


def shown(readme: str) -> str:
    """The table that ``readme`` has."""
    begin = readme.index(HEADING)
    return readme[begin : readme.index("\n\n", begin) + 1]


if __name__ == "__main__":
    text = README.read_text("utf-8")
    README.write_text(text.replace(shown(text), table()), "utf-8")
