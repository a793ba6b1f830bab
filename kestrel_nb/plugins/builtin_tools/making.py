"""The built-in tools as objects. A tool's module comes in when the tool is made, so that what is off costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...runtime.models import ModelRegistry
from ...runtime.tools import Tool
from .config import BuiltInToolConfig

if TYPE_CHECKING:
    from ...sandbox.network import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the tools are made of: their configuration, the models of the application, and the way out."""

    config: BuiltInToolConfig
    models: ModelRegistry
    network: Network


def make_tool(id: str, parts: Parts) -> Tool:
    """The built-in tool ``id``, also one that lacks something: it then answers that it does."""
    return _MAKERS[id](parts)


def _http_fetch(parts: Parts) -> Tool:
    from .http_fetch import HttpFetch

    return HttpFetch(parts.config.http_fetch, parts.network)


def _date_time(parts: Parts) -> Tool:
    from .date_time import DateTime

    return DateTime()


def _json_parse(parts: Parts) -> Tool:
    from .json_parse import JsonParse

    return JsonParse()


def _math_eval(parts: Parts) -> Tool:
    from .math_eval import MathEval

    return MathEval()


def _regex_match(parts: Parts) -> Tool:
    from .regex_match import RegexMatch

    return RegexMatch()


def _image_describe(parts: Parts) -> Tool:
    from .image_describe import ImageDescribe

    return ImageDescribe(parts.models, parts.network)


def _web_search(parts: Parts) -> Tool:
    from .web_search import WebSearch

    return WebSearch(parts.config.web_search_provider)


def _file_read(parts: Parts) -> Tool:
    from .files import FileRead

    return FileRead(parts.config)


def _file_write(parts: Parts) -> Tool:
    from .files import FileWrite

    return FileWrite(parts.config)


def _shell_exec(parts: Parts) -> Tool:
    from .shell_exec import ShellExec

    return ShellExec(parts.config)


def _code_eval(parts: Parts) -> Tool:
    from .code_eval import CodeEval

    return CodeEval(parts.config)


def _database_query(parts: Parts) -> Tool:
    from .database_query import DatabaseQuery

    return DatabaseQuery(parts.config.database_path)


_MAKERS: Mapping[str, Callable[[Parts], Tool]] = {
    "http-fetch": _http_fetch,
    "date-time": _date_time,
    "json-parse": _json_parse,
    "math-eval": _math_eval,
    "regex-match": _regex_match,
    "image-describe": _image_describe,
    "web-search": _web_search,
    "file-read": _file_read,
    "file-write": _file_write,
    "shell-exec": _shell_exec,
    "code-eval": _code_eval,
    "database-query": _database_query,
}
