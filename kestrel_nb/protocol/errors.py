"""Every error that Kestrel raises on purpose.

    KestrelError
    ├── ModelError
    │   ├── ModelNotFoundError          model_not_found
    │   └── ModelRequestError           model_request_failed
    ├── ToolError
    │   ├── ToolNotFoundError           tool_not_found
    │   ├── ToolCallError               tool_call_failed
    │   ├── ToolSchemaError             invalid_tool_schema
    │   └── SandboxViolationError       SANDBOX_VIOLATION
    ├── DuplicateNameError              duplicate_name
    ├── SessionError
    │   ├── SessionNotFoundError        session_not_found
    │   ├── SessionBusyError            session_busy
    │   ├── SessionOwnedError           session_owned_elsewhere
    │   ├── SessionGuardError           session_guard
    │   └── RewindError                 message_not_found, invalid_rewind_target, session_busy
    ├── ApprovalError                   approval_not_found, approval_closed, invalid_arguments
    ├── StoreError                      store_failed, invalid_session_id
    ├── CodecError                      invalid_json_form, newer_version
    ├── PluginError                     plugin_failed
    ├── CancelledByUser                 cancelled
    ├── MissingExtraError               missing_extra
    └── UsageError                      usage

``code`` is stable and meant for programs; the message is for people and says what to do next.
"""

from __future__ import annotations

from typing import ClassVar


class KestrelError(Exception):
    """Base of all errors below. ``code`` names the kind of failure for programs."""

    default_code: ClassVar[str] = "kestrel_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code


class ModelError(KestrelError):
    """A model could not be found or did not answer."""

    default_code = "model_error"


class ModelNotFoundError(ModelError):
    """No model is registered under that id, or none at all."""

    default_code = "model_not_found"


class ModelRequestError(ModelError):
    """A request to a model failed.

    ``status`` is the HTTP status or None, ``retryable`` whether another try may help, and ``retry_after_ms`` how long
    the server asked to wait, in milliseconds. ``request_id`` is what the server calls the request, for its support.
    ``jitter``, from 0 to 1, is the random part of the wait before the next try; None: it is drawn. ``recorded``: it is
    played, so nobody waits.
    """

    default_code = "model_request_failed"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_ms: float | None = None,
        request_id: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.request_id = request_id
        self.jitter: float | None = None
        self.recorded = False


class ToolError(KestrelError):
    """Something about a tool or one of its calls went wrong."""

    default_code = "tool_error"


class ToolNotFoundError(ToolError):
    """No tool is registered under that name."""

    default_code = "tool_not_found"


class ToolCallError(ToolError):
    """A direct call of a tool failed: bad arguments, declined, denied, or the tool itself failed."""

    default_code = "tool_call_failed"


class ToolSchemaError(ToolError):
    """A tool's parameter schema is not valid JSON Schema, or refers to something outside itself."""

    default_code = "invalid_tool_schema"


class SandboxViolationError(ToolCallError):
    """A tool was asked to leave the workspace."""

    default_code = "SANDBOX_VIOLATION"


class DuplicateNameError(KestrelError):
    """A registry already holds something under that name."""

    default_code = "duplicate_name"


class SessionError(KestrelError):
    """A session can't do what was asked."""

    default_code = "session_error"


class SessionNotFoundError(SessionError):
    """No session has that id."""

    default_code = "session_not_found"


class SessionBusyError(SessionError):
    """The session is already running."""

    default_code = "session_busy"


class SessionOwnedError(SessionError):
    """Another process works on this session; here it can only be read."""

    default_code = "session_owned_elsewhere"


class SessionGuardError(SessionError):
    """A guard refused to create a session or to start a run."""

    default_code = "session_guard"


class RewindError(SessionError):
    """A rewind was refused. ``code`` is message_not_found, invalid_rewind_target or session_busy."""

    default_code = "invalid_rewind_target"


class ApprovalError(KestrelError):
    """An answer could not be taken. ``code`` is approval_not_found, approval_closed or invalid_arguments."""

    default_code = "approval_not_found"


class StoreError(KestrelError):
    """A session could not be stored or read. ``code`` is store_failed or invalid_session_id."""

    default_code = "store_failed"


class CodecError(KestrelError):
    """JSON does not have the expected form. ``code`` is invalid_json_form or newer_version."""

    default_code = "invalid_json_form"


class PluginError(KestrelError):
    """A plugin could not be found, configured or activated."""

    default_code = "plugin_failed"


class CancelledByUser(KestrelError):
    """Work was stopped by a cancel signal."""

    default_code = "cancelled"


class MissingExtraError(KestrelError):
    """An optional dependency is not installed. The message holds the pip line."""

    default_code = "missing_extra"


class UsageError(KestrelError):
    """A person typed something that can't be done; the message is one line and says what can."""

    default_code = "usage"
