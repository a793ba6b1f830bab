"""In-process floor: the bare loop with a scripted model, no HTTP and no framework."""

from peers.common import reply_with


def setup(url):
    pass


async def steps(prompt, n):
    history = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": prompt}]
    step = 0
    while True:
        if step < n:
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"call_{step:06d}",
                        "type": "function",
                        "function": {"name": "add", "arguments": '{"a": %d, "b": 1}' % step},
                    }
                ],
            }
        else:
            message = {"role": "assistant", "content": f"done {n}"}
        step += 1
        if reply_with(message, history):
            return message["content"]
