"""Tab in a shell: what it knows of kestrel is loaded when it is pressed first."""

from __future__ import annotations

from typing import Any

from IPython.core.completer import CompletionContext, SimpleMatcherResult, context_matcher

IDENTIFIER = "kestrel"
PRIORITY = 1_000  # before IPython's own, which then need not work at all


def install(shell: Any) -> None:
    """Let Tab in ``shell`` know the words of kestrel."""
    remove(shell)

    @context_matcher(identifier=IDENTIFIER, priority=PRIORITY)  # type: ignore[untyped-decorator]
    def kestrel_matcher(context: CompletionContext) -> SimpleMatcherResult:
        from .completion import answer

        return answer(shell, context)

    shell.Completer.custom_matchers.append(kestrel_matcher)


def remove(shell: Any) -> None:
    """Take out of ``shell`` what ``install`` put in."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if getattr(matcher, "matcher_identifier", "") != IDENTIFIER]
