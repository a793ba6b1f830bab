"""What the floors and the plain-SDK peer share: the tool, its schema, the bookkeeping of a chat history."""

import json

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two integers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        },
    }
]
HEADERS = {"authorization": "Bearer x", "content-type": "application/json"}


def encode(obj) -> bytes:
    return json.dumps(obj, separators=(",", ":"), ensure_ascii=False).encode()


def add(a: int, b: int) -> int:
    return a + b


def reply_with(message, history):
    """Run the tool calls of an assistant message and append everything to the history; True when it was the last."""
    history.append(message)
    calls = message.get("tool_calls")
    if not calls:
        return True
    for c in calls:
        result = add(**json.loads(c["function"]["arguments"]))
        history.append({"role": "tool", "tool_call_id": c["id"], "content": str(result)})
    return False


def merge(message, delta):
    if delta.get("content"):
        message["content"] = (message["content"] or "") + delta["content"]
    for d in delta.get("tool_calls") or ():
        calls = message.setdefault("tool_calls", [])
        if d["index"] >= len(calls):
            calls.append(
                {"id": d["id"], "type": "function", "function": {"name": d["function"]["name"], "arguments": ""}}
            )
        calls[d["index"]]["function"]["arguments"] += d["function"].get("arguments") or ""
