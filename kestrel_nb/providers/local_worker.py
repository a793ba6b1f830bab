"""The child process that holds one GGUF file: it loads it with xllamacpp and answers requests, one at a time.

Run as a script: ``local_worker.py PATH CONTEXT THREADS``. Requests come as JSON lines on stdin, ``{"id", "body"}`` or
``{"cancel": id}``; what comes back on stdout is ``{"ready": true}`` once, then for each request its chunks,
``{"id", "chunk"}``, and ``{"id", "done": true}``. Errors of llama.cpp go to stderr. The process ends when stdin does.

It is a process of its own since llama.cpp aborts on some damaged files, and xllamacpp holds Python's lock as long as
it loads: in the kernel's process the first would end the kernel, the second freeze it.
"""

import json
import os
import queue
import secrets
import signal
import sys
import tempfile
import threading
from typing import Any

BATCH = 32  # tokens of a prompt that are read between two looks at whether to stop: a quarter of a second of SmolLM2
MAX_SOCKET_PATH = 100  # bytes that a socket's address may have, with room for its name: 104 on macOS, 108 on Linux


def main(path: str, context: int, threads: int) -> None:
    """Load the file, then answer until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the kernel's; it says itself what to stop
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever prints must not get between the answers
    inbox = Inbox()
    threading.Thread(target=inbox.read, daemon=True).start()
    try:
        server = load(path, context, threads)
    except Exception as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(1)
    tell(answers, {"ready": True})
    while True:
        number, body = inbox.requests.get()
        if not inbox.is_cancelled(number):
            answer(server, number, body, inbox, answers)
        tell(answers, {"id": number, "done": True})


class Inbox:
    """What the parent sends, read by a thread so that a request can be cancelled while it is worked."""

    def __init__(self) -> None:
        self.requests: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        self._cancelled = 0

    def read(self) -> None:
        """Read until the parent is gone; then this process ends at once."""
        for line in sys.stdin:
            message = json.loads(line)
            if "cancel" in message:
                self._cancelled = max(self._cancelled, message["cancel"])
            else:
                self.requests.put((message["id"], message["body"]))
        os._exit(0)

    def is_cancelled(self, number: int) -> bool:
        """True when request ``number`` is not wanted any more; requests come in the order of their numbers."""
        return number <= self._cancelled


def load(path: str, context: int, threads: int) -> Any:
    """The loaded model as a server of xllamacpp. Raises RuntimeError when llama.cpp can't load the file.

    xllamacpp always listens for HTTP too. Here that is a Unix socket in a folder that is gone once it listens, so
    nobody can connect; where there are none it is a port of this machine, locked by a key that nobody knows.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = path, context, 1
    params.verbosity = 1  # errors only
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_batch = params.n_ubatch = BATCH
    params.cache_ram_mib = 0  # else up to 8 GB of earlier conversations would be kept
    params.warmup = params.ui = params.endpoint_slots = False
    params.offline = True
    params.n_threads_http = 1
    params.api_keys = [secrets.token_hex(32)]
    with tempfile.TemporaryDirectory(prefix="kestrel-") as folder:
        unix = os.name == "posix" and len(os.fsencode(folder)) < MAX_SOCKET_PATH - len("/s.sock")
        params.hostnames = [os.path.join(folder, "s.sock") if unix else "127.0.0.1"]
        return xllamacpp.Server(params)


def answer(server: Any, number: int, body: dict[str, Any], inbox: Inbox, answers: Any) -> None:
    """Work one request; each chunk is told as it comes."""

    def on_chunk(chunk: dict[str, Any]) -> bool:
        if inbox.is_cancelled(number):
            return True
        tell(answers, {"id": number, "chunk": chunk})
        return False

    try:
        server.handle_chat_completions(body, on_chunk)
    except Exception as error:  # what llama.cpp can't make a prompt or a grammar of
        tell(answers, {"id": number, "chunk": {"error": {"message": str(error)}}})


def tell(answers: Any, message: dict[str, Any]) -> None:
    """Write one line. Without a reader this process has no use any more."""
    try:
        answers.write(json.dumps(message) + "\n")
        answers.flush()
    except OSError:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
