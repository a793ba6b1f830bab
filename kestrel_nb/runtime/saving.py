"""Saving a session: one queue each, so that writes keep their order and nobody waits who need not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..protocol.errors import StoreError
from ..protocol.sessions import SessionDetail, SessionStep
from .stores import SessionStore, StepStore


class SaveQueue:
    """Writes of one session, one after the other. A write that fails is reported and the next one writes it all.

    The tasks that are returned end with True when the write is durable, with False when it failed.
    """

    def __init__(self, store: SessionStore, id: str, on_error: Callable[[str], None]) -> None:
        self._store = store
        self._steps = store if isinstance(store, StepStore) else None  # asked once: such a look is slow
        self._id = id
        self._on_error = on_error
        self._last: asyncio.Task[bool] | None = None
        self._needs_whole = True

    @property
    def needs_whole(self) -> bool:
        """True until a whole session was written, and again after a failure."""
        return self._needs_whole or self._steps is None

    def loaded(self) -> None:
        """The store already holds the session: steps may be appended."""
        self._needs_whole = False

    def invalidate(self) -> None:
        """Something changed that no step can say: the next write writes the whole session."""
        self._needs_whole = True

    def whole(self, detail: SessionDetail) -> asyncio.Task[bool]:
        """Write the whole session."""

        async def write() -> None:
            await self._store.save(detail)
            self._needs_whole = False

        return self._put(write)

    def step(self, step: SessionStep, detail: Callable[[], SessionDetail]) -> asyncio.Task[bool]:
        """Append ``step``; the whole ``detail()`` instead when an earlier write failed."""

        async def write() -> None:
            if self._steps is not None and not self._needs_whole:
                await self._steps.append_step(self._id, step)
            else:
                await self._store.save(detail())
                self._needs_whole = False

        return self._put(write)

    async def drain(self) -> None:
        """Return when everything that was put so far is written."""
        last = self._pending()
        if last is not None:
            await asyncio.wait({last})

    def _pending(self) -> asyncio.Task[bool] | None:
        """The last write while it goes on. One of another loop never ends any more once that loop is gone."""
        last = self._last
        if last is None or last.done() or last.get_loop() is not asyncio.get_running_loop():
            return None
        return last

    def _put(self, write: Callable[[], Awaitable[None]]) -> asyncio.Task[bool]:
        self._last = asyncio.get_running_loop().create_task(self._write(self._pending(), write))
        return self._last

    async def _write(self, before: asyncio.Task[bool] | None, write: Callable[[], Awaitable[None]]) -> bool:
        try:
            if before is not None:
                await asyncio.wait({before})
            await write()
            return True
        except StoreError as error:
            self._fail(str(error))
        except Exception as error:  # a store of the user's own may raise anything; the run goes on
            self._fail(f"{type(error).__name__}: {error}")
        except BaseException:  # the loop is closing: what was not written must not be missed by the next step
            self._needs_whole = True
            raise
        return False

    def _fail(self, text: str) -> None:
        self._needs_whole = True
        self._on_error(text)
