"""Plays the page of a run view by raw messages: says that it is drawn, reads its cards, presses its buttons."""

from typing import Any

from harness import Kernel, Message, parent

VIEW = "application/vnd.jupyter.widget-view+json"


class RunPage:
    """The view of one running cell as a page sees it. ``route`` is ``main`` or ``subshell``, as front ends differ."""

    def __init__(self, kernel: Kernel, code: str, route: str = "main", *, ready: bool = True) -> None:
        self.kernel = kernel
        self.subshell = kernel.new_subshell() if route == "subshell" else None
        self.cell = kernel.execute(code, allow_stdin=True)
        shown = kernel.wait(self._shows_view)
        assert shown is not None, f"no view was shown; the cell says: {kernel.text(self.cell)}"
        self.comm = str(shown["content"]["data"][VIEW]["model_id"])
        if ready:
            self.send({"type": "ready"})

    def _shows_view(self, message: Message) -> bool:
        return parent(message) == self.cell and VIEW in message["content"].get("data", {})

    def send(self, content: Message) -> str:
        """A custom message of the page."""
        return self.kernel.custom(self.comm, content, self.subshell)

    def answer(self, card: Message, approved: bool, **more: Any) -> str:
        """Press a button of ``card``."""
        return self.send({"type": "answer", "id": card["id"], "approved": approved, **more})

    def cards(self) -> list[Message]:
        """The open cards, from the synced state as far as read."""
        page = self.kernel.models().get(self.comm, {}).get("page", {})
        return [block["card"] for block in page.get("blocks", []) if block.get("card")]

    def card(self, timeout: float = 20, *, other_than: str = "") -> Message:
        """The first open card, waiting for it."""

        def shows_a_card(_: Message) -> bool:
            return any(card["id"] != other_than for card in self.cards())

        if not shows_a_card({}):
            assert self.kernel.wait(shows_a_card, timeout, len(self.kernel.log)), "no card appeared"
        return next(card for card in self.cards() if card["id"] != other_than)

    def refusal(self, timeout: float = 5) -> str | None:
        """The sentence with which an answer was refused, or None."""
        said = self.kernel.wait(self._refuses, timeout)
        return str(said["content"]["data"]["content"]["message"]) if said else None

    def _refuses(self, message: Message) -> bool:
        data = message["content"].get("data", {})
        return data.get("method") == "custom" and data["content"].get("type") == "answer_failed"
