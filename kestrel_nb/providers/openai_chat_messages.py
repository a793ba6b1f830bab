"""One message as Chat Completions wants it, encoded to bytes."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from ..protocol.messages import ChatMessage, ImagePart, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from .encoding import argument_bytes, json_bytes, sent_name
from .images import image_url
from .tool_results import Sent, told

# What servers take as the id of a call, which may be that of another server, and the length of one made in its place.
# No rule is known of the rest.
_IDS: Final = {
    "openai-chat": (re.compile(r".{1,40}", re.DOTALL), 40),
    "openai-chat@api.mistral.ai": (re.compile(r"[a-zA-Z0-9]{9}"), 9),
}


def encode_message(message: ChatMessage, stamp: str) -> Sent[bytes]:
    """The JSON of ``message`` (several objects with commas, or none), and the user message for its tools' images.

    Reasoning and other opaque data go back only to ``stamp``, whose data they are.
    """
    if message.role == "tool":
        return _tool_results(message, stamp)
    if message.role == "assistant":
        data = _assistant(message, stamp)
        return Sent(json_bytes(data) if data else b"")
    return Sent(json_bytes({"role": message.role, "content": _content(message)}))


def _content(message: ChatMessage) -> str | list[dict[str, Any]]:
    """Plain text where it is only text: some servers take nothing else."""
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return message.content
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            content.append(_image(part))
    return content


def _image(image: ImagePart) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image_url(image)}}


# ---- what the model said ------------------------------------------------------------------------------------------


def _assistant(message: ChatMessage, stamp: str) -> dict[str, Any] | None:
    """None for a turn that said nothing, or only thought: strict servers refuse a message without content."""
    own = message.provider == stamp
    texts = [part for part in message.parts if isinstance(part, TextPart)]
    refusal = "".join(part.text for part in texts if own and part.extra.get("refusal"))
    content = "".join(part.text for part in texts if not (own and part.extra.get("refusal")))
    calls = [_call(part, stamp, own=own) for part in message.tool_calls]
    if not (content or refusal or calls):
        return None
    data: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else "")}
    if refusal:
        data["refusal"] = refusal
    if own:
        data.update(_reasoning(message))
    if calls:
        data["tool_calls"] = calls
    return data


def _call(call: ToolCallPart, stamp: str, *, own: bool) -> dict[str, Any]:
    """A call. Arguments that are no object are left out: servers that read them refuse every request with them."""
    arguments = (argument_bytes(call) or b"{}").decode()
    data: dict[str, Any] = {
        "id": _call_id(call.id, stamp),
        "type": "function",
        "function": {"name": sent_name(call.name), "arguments": arguments},
    }
    if own and "extra_content" in call.extra:
        data["extra_content"] = call.extra["extra_content"]
    return data


def _call_id(id: str, stamp: str) -> str:
    """``id``, or one made of it where the server does not take it."""
    rule, size = _IDS.get(stamp, (None, 0))
    if rule is None or rule.fullmatch(id):
        return id
    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:size]


def _reasoning(message: ChatMessage) -> dict[str, Any]:
    """What a server needs back of its own reasoning, under the names it used."""
    data: dict[str, Any] = {}
    for part in message.parts:
        if not isinstance(part, ReasoningPart):
            continue
        field = part.extra.get("reasoning_field")
        if field and part.text:
            data[field] = data.get(field, "") + part.text
        if details := part.extra.get("reasoning_details"):
            data["reasoning_details"] = [*data.get("reasoning_details", ()), *details]
    return data


# ---- what the tools gave ------------------------------------------------------------------------------------------


def _tool_results(message: ChatMessage, stamp: str) -> Sent[bytes]:
    """One object for each result, text only, and one user message with all images."""
    results: list[bytes] = []
    shown: list[dict[str, Any]] = []
    for part in message.tool_results:
        call_id = _call_id(part.call_id, stamp)
        results.append(json_bytes({"role": "tool", "tool_call_id": call_id, "content": _result_text(part)}))
        if part.images:
            shown.append({"type": "text", "text": f"Images from the tool {part.name} (call {call_id}):"})
            shown += [_image(image) for image in part.images]
    users = (json_bytes({"role": "user", "content": shown}),) if shown else ()
    return Sent(b",".join(results), users)


def _result_text(result: ToolResultPart) -> str:
    """The format has no flag for errors, and no images in results: both are said in words."""
    text = told(result)
    if result.images:
        count = f"{len(result.images)} images follow" if len(result.images) > 1 else "1 image follows"
        text = f"{text}\n[{count} in the next user message]".lstrip("\n")
    return text
