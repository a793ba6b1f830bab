"""Answers that another process leaves for the owner of a session: one file per question, the first one wins."""

from __future__ import annotations

import errno
import logging
import os
from typing import cast, get_args

from ..protocol.codec import dumps, from_document, loads, to_document
from ..protocol.errors import CodecError
from ..protocol.json_text import DOCUMENT_DEPTH
from ..protocol.sessions import AnsweredBy, ApprovalDecision
from .file_disk import SAFE, Disk, Unreadable

FOLDER = "answers"
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)

logger = logging.getLogger(__name__)


def post(disk: Disk, folder: str, approval_id: str, decision: ApprovalDecision, by: AnsweredBy) -> bool:
    """Leave an answer in the session's ``folder``; False when one lies there already. Raises OSError."""
    answers = os.path.join(folder, FOLDER)
    target = os.path.join(answers, f"{approval_id}.json")
    data = dumps({**to_document("answer", decision), "by": by}).encode("ascii")
    disk.make_folder(answers)
    temporary = disk.write_temporary(folder, FOLDER, data)
    try:
        # The file is whole before it has its name: the owner never reads half an answer.
        disk.call(os.link, temporary, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if not _create(disk, target, data):
            return False
    finally:
        disk.discard(temporary)
    disk.sync_folder(answers)
    return True


def _create(disk: Disk, target: str, data: bytes) -> bool:
    """The same without hard links; a reader that comes too early finds no JSON and tries again."""
    try:
        fd = disk.call(os.open, target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
    except FileExistsError:
        return False
    try:
        disk.write_all(fd, data)
        disk.call(os.fsync, fd)
    except BaseException:
        disk.discard(target)
        raise
    finally:
        disk.call(os.close, fd)
    return True


def take(disk: Disk, folder: str, approval_id: str) -> tuple[ApprovalDecision, AnsweredBy] | None:
    """The answer, once; None when none lies there. Raises OSError."""
    path = os.path.join(folder, FOLDER, f"{approval_id}.json")
    try:
        found = disk.read(path)
        answer = None if found is None else _parsed(found[0])
    except (Unreadable, CodecError) as error:
        logger.debug("no answer in %s: %s", path, error)
        return None
    if answer is None:
        return None
    try:
        disk.call(os.unlink, path)
    except FileNotFoundError:  # someone else was first
        return None
    return answer


def _parsed(data: bytes) -> tuple[ApprovalDecision, AnsweredBy]:
    document = loads(data, DOCUMENT_DEPTH)
    by = document.pop("by", None) if isinstance(document, dict) else None
    if by not in get_args(AnsweredBy):
        raise CodecError("answer.by: not a known way to answer")
    return from_document(ApprovalDecision, document), cast(AnsweredBy, by)
