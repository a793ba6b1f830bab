"""Sessions in files: ``<directory>/sessions/<id>/session.json`` and what stands beside it.

    session.json      the whole session, replaced in one piece
    journal.jsonl     the steps since then (file_journal)
    lease             who works on it (file_lease)
    answers/          answers from other processes (file_answers)
    data/             large data of tools

What can't be read is skipped with a warning and never overwritten: a later save keeps it as ``*.corrupt-<n>``.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import re
import shutil
import stat

from ..protocol.errors import CodecError, StoreError
from ..protocol.sessions import AnsweredBy, ApprovalDecision, SessionDetail, SessionStep, SessionSummary, apply_step
from . import file_answers, file_journal, file_lease
from .file_disk import MAX_BYTES, Disk, Unreadable, explained
from .file_document import DocumentWriter, decode_document
from .file_turns import Turns

NAME = "session.json"
DATA = "data"  # the folder of large tool data
_READS = 8  # how often a session is read again because it was replaced meanwhile
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])", re.IGNORECASE)  # no file names on Windows

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")

_Summaries = list[SessionSummary]
_Identity = tuple[int, int, int]
logger = logging.getLogger(__name__)


class FileSessionStore:
    """A store that survives crashes and serves several processes. All failures are StoreError.

    What was there stays as it was when a call fails. The disk work of one session happens in the order of the calls,
    in a thread; the methods that are no coroutines work at once and are short. ``disk`` makes the system calls.
    """

    def __init__(self, directory: str | os.PathLike[str], *, disk: Disk | None = None) -> None:
        self._sessions = os.path.join(os.path.abspath(os.path.expanduser(directory)), "sessions")
        self._disk = disk or Disk()
        self._writer = DocumentWriter()
        self._user = id(self)  # of this process's leases
        self._whole: dict[str, _Identity] = {}  # the files that this store wrote or read, and so knows to be whole
        self._journals: dict[str, tuple[int, int]] = {}  # of those that this store wrote: size and highest ``seq``
        self._new: set[str] = set()  # whose folder was made and is not on the disk for certain
        self._turns = Turns()

    @property
    def folder(self) -> str:
        """Where the sessions lie. See ``FolderStore``."""
        return self._sessions

    # ---- the session store ---------------------------------------------------------------------------------------

    async def list(self) -> list[SessionSummary]:
        """Every session that can be read, sorted by id."""
        return await self._turns.take("", self._list)

    async def load(self, id: str) -> SessionDetail | None:
        """The session ``id``, or None when nothing (readable) is stored. Raises StoreError when the disk fails."""
        _check_id(id, "session")
        return await self._turns.take(id, functools.partial(self.load_now, id))

    async def save(self, session: SessionDetail) -> None:
        """Store ``session`` in the place of what was stored under its id; durable when this returns."""
        _check_id(session.id, "session")
        await self._turns.take(session.id, functools.partial(self._save, session))

    async def append_step(self, id: str, step: SessionStep) -> None:
        """Add ``step`` to the stored session; durable when this returns. Raises StoreError when it was never saved."""
        _check_id(id, "session")
        await self._turns.take(id, functools.partial(self._append, id, step))

    async def delete(self, id: str) -> None:
        """Remove the session and everything beside it; nothing happens when there is none."""
        _check_id(id, "session")
        await self._turns.take(id, functools.partial(self._delete, id))

    # ---- shared with other processes -----------------------------------------------------------------------------

    def acquire(self, id: str) -> bool:
        """Own the session until ``release`` or the end of this process; False when another process does."""
        _check_id(id, "session")
        folder = self._folder(id)
        with explained(f'session "{id}" could not be opened for writing'):
            # Called on the event loop, where waiting for the disk would hold up everything: the first save does that.
            if self._disk.make_folder(folder, sync=False):
                self._new.add(id)
            return file_lease.acquire(self._disk, os.path.join(folder, file_lease.NAME), self._user)

    def release(self, id: str) -> None:
        """Own the session no longer; nothing happens when it was not owned."""
        _check_id(id, "session")
        file_lease.release(os.path.join(self._folder(id), file_lease.NAME), self._user)

    def owner(self, id: str) -> str | None:
        """Which other process owns the session, in words for a person; None when none does."""
        _check_id(id, "session")
        with explained(f'the owner of session "{id}" could not be read'):
            return file_lease.owner(self._disk, os.path.join(self._folder(id), file_lease.NAME))

    def load_now(self, id: str) -> SessionDetail | None:
        """What is stored now, whoever owns it; None when nothing (readable) is."""
        _check_id(id, "session")
        if id in self._new:  # owned since it was made, and not saved yet
            return None
        try:
            with explained(f'session "{id}" could not be read'):
                return self._read(id)
        except Unreadable as error:
            logger.warning("skipped session %s: %s (its files are kept)", id, error)
            return None

    def post_answer(self, id: str, approval_id: str, decision: ApprovalDecision, by: AnsweredBy) -> bool:
        """Leave an answer for the owner. False when one lies there already: the first answer wins."""
        _check_id(id, "session")
        _check_id(approval_id, "approval")
        folder = self._folder(id)
        with explained(f'the answer to "{approval_id}" could not be stored'):
            if not self._is_folder(folder):
                raise StoreError(f'session "{id}" is not stored here; look at the list of sessions')
            return file_answers.post(self._disk, folder, approval_id, decision, by)

    def take_answer(self, id: str, approval_id: str) -> tuple[ApprovalDecision, AnsweredBy] | None:
        """The answer that another process left, once; None when there is none."""
        _check_id(id, "session")
        _check_id(approval_id, "approval")
        with explained(f'the answer to "{approval_id}" could not be read'):
            return file_answers.take(self._disk, self._folder(id), approval_id)

    # ---- reading -------------------------------------------------------------------------------------------------

    def _folder(self, id: str) -> str:
        return os.path.join(self._sessions, id)

    def _is_folder(self, folder: str) -> bool:
        status = self._disk.status(folder)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _list(self) -> _Summaries:
        with explained("the sessions could not be listed"):
            try:
                names = sorted(self._disk.call(os.listdir, self._sessions))
            except FileNotFoundError:
                return []
        found = (self._listed(name) for name in names if _is_id(name))
        return [detail.summary() for detail in found if detail is not None]

    def _listed(self, id: str) -> SessionDetail | None:
        folder = self._folder(id)
        if not self._is_folder(folder):
            return None
        try:
            detail = self.load_now(id)
        except StoreError as error:
            logger.warning("skipped session %s: %s", id, error)
            return None
        names = (NAME, file_lease.NAME)  # one with a lease was opened and not saved yet
        if detail is None and all(self._disk.status(os.path.join(folder, name)) is None for name in names):
            logger.warning("skipped session %s: it has no %s", id, NAME)
        return detail

    def _read(self, id: str) -> SessionDetail | None:
        """The stored session with its journal. Raises Unreadable, OSError."""
        folder = self._folder(id)
        status = self._disk.status(folder)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise Unreadable("its folder is a link, which could lead out of the store")
        path = os.path.join(folder, NAME)
        for _ in range(_READS):
            # The journal first: one that is older than the document adds nothing, a newer one would leave a hole.
            before = self._disk.status(path)
            journal = file_journal.read(self._disk, folder)
            found = self._disk.read(path)
            if found is None:
                return None
            data, after = found
            if before is not None and _identity(before) == _identity(after):
                detail = decode_document(id, data)
                self._whole[id] = _identity(after)
                return functools.reduce(apply_step, journal.steps, detail)
        raise StoreError(f'session "{id}" is being written all the time; try again')

    # ---- writing -------------------------------------------------------------------------------------------------

    def _save(self, session: SessionDetail) -> None:
        id, folder = session.id, self._folder(session.id)
        try:
            data = self._writer.encode(session)
        except CodecError as error:
            raise StoreError(f'session "{id}" could not be saved: {error}') from error
        if len(data) > MAX_BYTES:
            raise StoreError(f'session "{id}" is larger than {MAX_BYTES // 2**20} MB; start a new one')
        with explained(f'session "{id}" could not be saved'):
            self._disk.make_folder(folder)
            journal = self._settled(id, folder, session.seq)
            self._put(id, folder, data)
            if id in self._new:
                self._disk.sync_folder(self._sessions)
                self._new.discard(id)
            file_journal.remove(self._disk, folder, journal)

    def _put(self, id: str, folder: str, data: bytes) -> None:
        self._disk.put(folder, NAME, data)
        status = self._disk.status(os.path.join(folder, NAME))
        if status is not None:
            self._whole[id] = _identity(status)

    def _settled(self, id: str, folder: str, seq: int) -> file_journal.Journal:
        """The journal that goes once a document with ``seq`` stands, after what can't be read was set aside.

        So the new document is never mixed with a journal that is not its own, not even by a crash.
        """
        status = self._disk.status(os.path.join(folder, NAME))
        try:
            if status is not None and self._whole.get(id) == _identity(status):
                stored = True
            else:
                self._disk.sweep(folder)
                stored = self._read(id) is not None
            if stored:
                journal = self._journal(id, folder)
                return self._folded(id, folder, journal) if journal.seq > seq else journal
        except Unreadable as error:
            if status is not None:
                logger.warning("kept what could not be read (%s): %s", error, self._disk.set_aside(folder, NAME))
        file_journal.set_aside(self._disk, folder)
        return file_journal.Journal()

    def _journal(self, id: str, folder: str) -> file_journal.Journal:
        """The journal; of one that this store wrote all by itself the steps are left out."""
        size, seq = self._journals.pop(id, (None, 0))
        if size is not None:
            status = self._disk.status(os.path.join(folder, file_journal.NAME))
            if status is not None and stat.S_ISREG(status.st_mode) and status.st_size == size:
                return file_journal.Journal(exists=True, seq=seq)
        return file_journal.read(self._disk, folder)

    def _folded(self, id: str, folder: str, journal: file_journal.Journal) -> file_journal.Journal:
        """Write the stored session with its journal, and remove that: a document with a lower ``seq`` comes next,
        and a crash right after it would else add the old steps to it."""
        stored = self._read(id)
        if stored is not None:
            self._put(id, folder, self._writer.encode(stored))
        file_journal.remove(self._disk, folder, journal)
        self._disk.sync_folder(folder)
        return file_journal.Journal()

    def _append(self, id: str, step: SessionStep) -> None:
        folder = self._folder(id)
        with explained(f'a step of session "{id}" could not be saved'):
            if self._disk.status(os.path.join(folder, NAME)) is None:
                raise StoreError(f'session "{id}" was never saved')
            try:
                line = self._writer.encode_step(id, step)
            except CodecError as error:
                raise StoreError(f'a step of session "{id}" could not be saved: {error}') from error
            known_size, known_seq = self._journals.get(id, (None, 0))
            size = file_journal.append(self._disk, folder, line, known_size)
            before = size - len(line)
            if before not in (0, known_size):  # it held steps that this store has not seen
                self._journals.pop(id, None)
            else:
                self._journals[id] = size, max(known_seq if before else 0, step.seq)

    async def attach(self, id: str, name: str, text: str) -> str:
        """Keep ``text`` (JSON) in a new file of the session, named after ``name``; returns the file's path."""
        _check_id(id, "session")
        return await self._turns.take(id, functools.partial(self._attach, id, name, text))

    def _attach(self, id: str, name: str, text: str) -> str:
        folder = os.path.join(self._folder(id), DATA)
        stem = _UNSAFE.sub("-", name)[:60].strip("-") or "data"
        with explained(f'data of session "{id}" could not be stored'):
            self._disk.make_folder(folder)
            taken = set(self._disk.call(os.listdir, folder))
            file = next(
                f"{stem}-{number}.json" for number in itertools.count(1) if f"{stem}-{number}.json" not in taken
            )
            self._disk.put(folder, file, text.encode("utf-8", "backslashreplace"))
            return os.path.join(folder, file)

    def _delete(self, id: str) -> None:
        folder = self._folder(id)
        self._whole.pop(id, None)
        self._new.discard(id)
        self._writer.forget(id)
        with explained(f'session "{id}" could not be deleted'):
            file_lease.release(os.path.join(folder, file_lease.NAME))
            status = self._disk.status(folder)
            if status is not None and stat.S_ISLNK(status.st_mode):
                self._disk.call(os.unlink, folder)  # the link, never what it leads to
            elif status is not None and stat.S_ISDIR(status.st_mode):
                document = self._disk.status(os.path.join(folder, NAME))
                if document is not None and not stat.S_ISDIR(document.st_mode):
                    self._disk.call(os.unlink, os.path.join(folder, NAME))  # first: from here on it is gone
                self._disk.call(shutil.rmtree, folder)
                self._disk.sync_folder(self._sessions)


def _identity(status: os.stat_result) -> _Identity:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_id(id: object) -> bool:
    return isinstance(id, str) and bool(_ID.fullmatch(id)) and not _DEVICE.fullmatch(id)


def _check_id(id: object, what: str) -> None:
    if not _is_id(id):
        raise StoreError(
            f"not a usable {what} id: {str(id)[:40]!r}; use 1 to 128 letters, digits, - and _ (no name of a device)",
            code="invalid_session_id",
        )
