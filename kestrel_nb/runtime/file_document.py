"""``session.json`` and the journal's lines as bytes. Texts are kept, so that a save encodes only what is new.

No key stands in them, not even in the arguments of a call: one that waits for an answer over a restart, and holds a
key, is then not the call that was asked about, and does not run.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..protocol.codec import dumps, encode, from_document, loads, to_document
from ..protocol.errors import CodecError
from ..protocol.json_text import DOCUMENT_DEPTH
from ..protocol.sessions import SessionDetail, SessionStep
from .file_disk import Unreadable
from .secrets import Masker

KEPT_SESSIONS = 64  # how many sessions' texts are kept; the least used go first

_Texts = dict[int, tuple[object, str]]


class DocumentWriter:
    """Encodes sessions, and keeps the text of each message and approval for the next time.

    Messages are told apart by identity, not by id: a message is a frozen value, while an id may come twice.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Texts] = OrderedDict()
        self._guard = threading.Lock()

    def encode(self, session: SessionDetail) -> bytes:
        """The document of ``session``. Raises CodecError when a value in it has no JSON form."""
        with self._guard:
            old = self._kept.get(session.id, {})
        masker = Masker.from_environment()
        head = _masked(to_document("session", replace(session, messages=(), approvals=())), masker)
        kept: _Texts = {}
        messages = _joined(session.messages, old, kept, masker)
        approvals = _joined(session.approvals, old, kept, masker)
        with self._guard:
            self._kept[session.id] = kept
            self._kept.move_to_end(session.id)
            while len(self._kept) > KEPT_SESSIONS:
                self._kept.popitem(last=False)
        return f'{head[:-1]},"messages":[{messages}],"approvals":[{approvals}]}}'.encode("ascii")

    def encode_step(self, id: str, step: SessionStep) -> bytes:
        """The line of a journal for ``step`` of the session ``id``. Raises CodecError."""
        kept: _Texts = {}
        masker = Masker.from_environment()
        head = _masked(to_document("step", replace(step, messages=(), approvals=())), masker)
        messages = _joined(step.messages, {}, kept, masker)
        approvals = _joined(step.approvals, {}, kept, masker)
        with self._guard:
            if id in self._kept:
                self._kept[id].update(kept)
        return f'{head[:-1]},"messages":[{messages}],"approvals":[{approvals}]}}\n'.encode("ascii")

    def forget(self, id: str) -> None:
        """Drop the texts of the session ``id``."""
        with self._guard:
            self._kept.pop(id, None)


def _joined(values: Iterable[object], old: _Texts, kept: _Texts, masker: Masker) -> str:
    texts = []
    for value in values:
        entry = old.get(id(value)) or kept.get(id(value))
        if entry is None or entry[0] is not value:
            entry = (value, _masked(encode(value), masker))
        kept[id(value)] = entry
        texts.append(entry[1])
    return ",".join(texts)


def _masked(data: Any, masker: Masker) -> str:
    """``data`` as JSON text without keys. Few values hold one, and to look through the text is the shorter way."""
    text = dumps(data)
    return dumps(masker.mask_json(data)) if masker.may_be_in(text) else text


def decode_document(id: str, data: bytes) -> SessionDetail:
    """The session in ``data``; its folder's name is its id. Raises Unreadable."""
    if not data.strip():
        raise Unreadable("the file is empty")
    try:
        document: Any = loads(data, DOCUMENT_DEPTH)
        if isinstance(document, dict):
            document = {**document, "id": id}
        detail = from_document(SessionDetail, document)
    except CodecError as error:
        raise Unreadable(str(error)) from None
    return _with_message_ids(detail)


def _with_message_ids(detail: SessionDetail) -> SessionDetail:
    """Files in the flat form may leave the ids of messages out; rewinding needs them."""
    if all(message.id for message in detail.messages):
        return detail
    messages = (
        message if message.id else replace(message, id=f"msg_{index}") for index, message in enumerate(detail.messages)
    )
    return replace(detail, messages=tuple(messages))
