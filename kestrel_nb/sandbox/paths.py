"""Where a path that a model gives really leads, and whether that is inside the workspace.

Every tool resolves here. A path may be relative to the workspace or absolute; links are followed and the place they
lead to is what counts, compared by whole segments. There is no tilde, variable or URL expansion. A hard link can't be
told from any other file: one that somebody made in the workspace can be read, but is replaced, never written through.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..protocol.errors import SandboxViolationError, ToolCallError

MAX_NAME_BYTES = 255  # NAME_MAX of the usual file systems
MAX_PATH_BYTES = 4096  # PATH_MAX of Linux


def resolve_inside(root: str | os.PathLike[str], path: str, *, restrict: bool = True, name: str = "workspace") -> Path:
    """The real, absolute place of ``path``, without links; it need not exist. ``name`` is that of ``root``.

    Raises SandboxViolationError when it lies outside ``root`` (unless ``restrict`` is false), ToolCallError when
    ``path`` can't name a file.
    """
    check_path(path)
    base = Path(os.path.realpath(root))
    try:
        real = Path(os.path.realpath(base / path))
    except RecursionError:
        raise ToolCallError(f"{quoted(path)}: too many links follow each other", code="invalid_path") from None
    except OSError as error:  # a link was changed into something else while it was read
        raise ToolCallError(f"{quoted(path)}: {_reason(error)}", code="file_error") from None
    if restrict and not real.is_relative_to(base):
        raise outside(path, name)
    return real


def check_path(path: str) -> None:
    """Raise ToolCallError, with what to do, when ``path`` can't be the name of a file."""
    problem = _problem(path)
    if problem:
        raise ToolCallError(f"path {quoted(path)}: {problem}", code="invalid_path")


def _problem(path: str) -> str | None:
    if not path.strip():
        return 'must not be empty; use "." for the workspace itself'
    if "\0" in path:
        return "must not contain a NUL character"
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return "must be valid Unicode, without lone surrogates"
    if size > MAX_PATH_BYTES:
        return f"is too long, {size:,} bytes; {MAX_PATH_BYTES:,} are allowed"
    if any(len(part.encode("utf-8")) > MAX_NAME_BYTES for part in path.split("/")):
        return f"has a name longer than {MAX_NAME_BYTES} bytes"
    if os.name == "nt" and ":" in os.path.splitdrive(path)[1]:
        return 'must not contain ":" after the drive'
    return None


def outside(path: str, name: str = "workspace") -> SandboxViolationError:
    """The error for a path that leaves the folder that is called ``name``."""
    return SandboxViolationError(
        f'{quoted(path)} is outside the {name}; give a path inside it, relative to its root, such as "src/main.py"'
    )


def quoted(path: str) -> str:
    """``path`` in quotes, printable and at most 200 characters long, for messages."""
    text = path.encode("utf-8", "backslashreplace").decode("utf-8")
    text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return f'"{text[:199]}…"' if len(text) > 200 else f'"{text}"'


def printable_name(name: str) -> str:
    """``name`` as it comes from the file system, with bytes that are not UTF-8 written as ``\\xNN``."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


@contextmanager
def explained(shown: str) -> Iterator[None]:
    """Turn an OSError into a ToolCallError that names the workspace path ``shown`` and says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise ToolCallError(f"File not found: {shown}", code="file_not_found") from None
    except IsADirectoryError:
        raise ToolCallError(f"{shown} is a folder, not a file; list_dir shows it", code="is_a_folder") from None
    except NotADirectoryError:
        raise ToolCallError(f"{shown} is not a folder, or lies below a file", code="not_a_folder") from None
    except PermissionError:
        raise ToolCallError(f"Permission denied: {shown}", code="permission_denied") from None
    except OSError as error:
        raise ToolCallError(f"{shown}: {_reason(error)}", code="file_error") from None


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "the link leads in a circle, or was changed while it was opened"
    if error.errno == errno.ENOSPC:
        return "the disk is full; nothing was changed"
    return (error.strerror or str(error)).lower()
