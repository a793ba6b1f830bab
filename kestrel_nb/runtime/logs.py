"""Logs without keys: an error that a server or a tool has put a key into is logged with its traceback."""

from __future__ import annotations

import logging

from .secrets import Masker


class _Keys(logging.Filter):
    """Masks what a record says. A record that holds no key stays the same."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, masked."""
        mask = Masker.from_environment().mask
        try:
            message = record.getMessage()
        except Exception:  # arguments that don't fit: the handler says so, as it does of every record
            return True
        if (masked := mask(message)) != message:
            record.msg, record.args = masked, None
        if record.exc_info and record.exc_info[0] is not None:
            told = logging.Formatter().formatException(record.exc_info)
            if (masked := mask(told)) != told:
                record.exc_info, record.exc_text = None, masked
        return True


_KEYS = _Keys()


def without_keys(logger: logging.Logger) -> logging.Logger:
    """``logger``, which from now on logs no key."""
    logger.addFilter(_KEYS)  # once, however often it is added
    return logger
