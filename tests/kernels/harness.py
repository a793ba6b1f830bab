"""A real Jupyter kernel and the moves of a front end: run a cell, press a button by its comm, interrupt, kill."""

import json
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpecManager

Message = dict[str, Any]
NOT_FOR_KERNELS = ("JUPYTER_TOKEN", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH", "PYTHONPATH")


def isolated_env(home: Path, **extra: str) -> dict[str, str]:
    """This process's environment with every Jupyter, IPython and user folder below ``home``."""
    env = {name: value for name, value in os.environ.items() if name not in NOT_FOR_KERNELS}
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "lab-settings",
        "JUPYTERLAB_WORKSPACES_DIR": "lab-workspaces",
        "IPYTHONDIR": "ipython",
        "XDG_DATA_HOME": "xdg-data",
        "XDG_CONFIG_HOME": "xdg-config",
        "XDG_CACHE_HOME": "xdg-cache",
        "XDG_STATE_HOME": "xdg-state",
    }
    for variable, name in folders.items():
        folder = home / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        env[variable] = str(folder)
    return {**env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}", **extra}


def write_kernelspec(home: Path, python: str = sys.executable) -> Path:
    """A kernelspec ``python3`` for ``python`` under ``home``/data; the folder that holds the kernelspecs."""
    folder = home / "data" / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3", "language": "python", "metadata": {"debugger": False}}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return folder.parent


@dataclass
class Outcome:
    """What one cell came to: its reply, and the iopub messages that it sent."""

    reply: Message
    messages: list[Message] = field(default_factory=list)

    @property
    def status(self) -> str:
        """``ok``, ``error`` or ``aborted``."""
        return str(self.reply["status"])

    @property
    def text(self) -> str:
        """Everything printed."""
        return "".join(m["content"]["text"] for m in self.messages if m["msg_type"] == "stream")

    @property
    def displayed(self) -> list[dict[str, Any]]:
        """MIME bundles in the order shown, results included; an update replaces what it updates."""
        shown: list[tuple[str | None, dict[str, Any]]] = []
        for message in self.messages:
            content = message["content"]
            key = content.get("transient", {}).get("display_id")
            if message["msg_type"] in ("display_data", "execute_result"):
                shown.append((key, content["data"]))
            elif message["msg_type"] == "update_display_data":
                shown = [(k, content["data"] if k == key else data) for k, data in shown]
        return [data for _, data in shown]


class Kernel:
    """One kernel and one client. iopub messages stay in ``log`` once read, so that no wait can lose them."""

    def __init__(self, manager: KernelManager, env: dict[str, str]) -> None:
        self.manager, self.env = manager, env
        self.log: list[Message] = []
        self.replies: dict[str, Message] = {}
        self.client: Any = None

    def connect(self) -> None:
        """Open channels and wait until the kernel answers."""
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    # -- cells ------------------------------------------------------------------------------

    def send(self, channel: str, kind: str, content: Message, subshell: str | None = None) -> str:
        """Send a message, to a subshell if given; its id."""
        message = self.client.session.msg(kind, content)
        if subshell:
            message["header"]["subshell_id"] = subshell
        getattr(self.client, f"{channel}_channel").send(message)
        return str(message["header"]["msg_id"])

    def execute(self, code: str, *, allow_stdin: bool = False) -> str:
        """Start a cell and return its message id at once."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        return self.send("shell", "execute_request", {**content, "allow_stdin": allow_stdin, "stop_on_error": True})

    def reply(self, msg_id: str, timeout: float = 30) -> Message | None:
        """The reply to ``msg_id``, or None when there is none in ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while msg_id not in self.replies and (left := deadline - time.monotonic()) > 0:
            try:
                message = self.client.get_shell_msg(timeout=left)
            except queue.Empty:
                break
            self.replies[message["parent_header"].get("msg_id", "")] = message["content"]
        return self.replies.get(msg_id)

    def outcome(self, msg_id: str, timeout: float = 30) -> Outcome:
        """Wait until the cell is over and all its output has come."""
        reply = self.reply(msg_id, timeout)
        assert reply is not None, f"the cell did not end within {timeout} s; output so far: {self.text(msg_id)}"
        idle = self.wait(lambda m: m["content"].get("execution_state") == "idle" and parent(m) == msg_id, 10)
        assert idle, "the kernel did not become idle"
        return Outcome(reply, [m for m in self.log if parent(m) == msg_id])

    def run(self, code: str, timeout: float = 30, *, allow_stdin: bool = False) -> Outcome:
        """Run a cell to its end."""
        return self.outcome(self.execute(code, allow_stdin=allow_stdin), timeout)

    def ok(self, code: str, timeout: float = 30) -> Outcome:
        """Run a cell that must succeed."""
        outcome = self.run(code, timeout)
        assert outcome.status == "ok", "\n".join([outcome.text, *outcome.reply.get("traceback", [])])
        return outcome

    def forget(self) -> None:
        """Forget what was read, for a test that shares the kernel with the one before it."""
        self.wait(lambda _: False, 0.05)
        self.log.clear()
        self.replies.clear()

    # -- iopub ------------------------------------------------------------------------------

    def wait(self, test: Callable[[Message], bool], timeout: float = 30, start: int = 0) -> Message | None:
        """The first iopub message from log index ``start`` on for which ``test`` is true, waiting for it."""
        deadline, seen = time.monotonic() + timeout, start
        while True:
            for message in self.log[seen:]:
                if test(message):
                    return message
            seen = len(self.log)
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            try:
                self.log.append(self.client.get_iopub_msg(timeout=left))
            except queue.Empty:
                return None

    def wait_for_text(self, text: str, timeout: float = 30, start: int = 0) -> bool:
        """Whether some cell prints ``text`` within ``timeout`` seconds."""
        return (
            self.wait(lambda m: m["msg_type"] == "stream" and text in m["content"]["text"], timeout, start) is not None
        )

    def text(self, msg_id: str) -> str:
        """What a cell has printed so far, as far as read."""
        return "".join(m["content"].get("text", "") for m in self.log if parent(m) == msg_id)

    # -- comms ------------------------------------------------------------------------------

    def models(self) -> dict[str, dict[str, Any]]:
        """Open widget models as far as read: comm id -> state, with later updates applied."""
        states: dict[str, dict[str, Any]] = {}
        for message in self.log:
            content, kind = message["content"], message["msg_type"]
            if kind == "comm_open":
                states[content["comm_id"]] = dict(content["data"].get("state", {}))
            elif kind == "comm_msg" and content["comm_id"] in states and content["data"].get("method") == "update":
                states[content["comm_id"]].update(content["data"]["state"])
            elif kind == "comm_close":
                states.pop(content["comm_id"], None)
        return states

    def comm_send(self, comm_id: str, data: Message, subshell: str | None = None) -> str:
        """Send a comm_msg as a front end does: to the main shell, or to a subshell."""
        return self.send("shell", "comm_msg", {"comm_id": comm_id, "data": data}, subshell)

    def custom(self, comm_id: str, content: Message, subshell: str | None = None) -> str:
        """Send a widget's custom message."""
        return self.comm_send(comm_id, {"method": "custom", "content": content}, subshell)

    def new_subshell(self) -> str:
        """The id of a new subshell."""
        self.send("control", "create_subshell_request", {})
        while True:
            message = self.client.control_channel.get_msg(timeout=10)
            if message["msg_type"] == "create_subshell_reply":
                return str(message["content"]["subshell_id"])

    # -- stdin ------------------------------------------------------------------------------

    def question(self, timeout: float = 10) -> str | None:
        """The prompt of the next input_request, or None when none comes."""
        try:
            return str(self.client.get_stdin_msg(timeout=timeout)["content"]["prompt"])
        except queue.Empty:
            return None

    def answer(self, value: str) -> None:
        """Answer the question that stands."""
        self.client.input(value)

    # -- life -------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """What the Interrupt button does."""
        self.manager.interrupt_kernel()

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash or an out-of-memory kill would."""
        assert self.manager.provisioner is not None
        pid = self.manager.provisioner.process.pid  # type: ignore[attr-defined]
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while self.manager.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not self.manager.is_alive()

    def restart(self) -> None:
        """A new process with the same folders; what was read before is forgotten."""
        self.client.stop_channels()
        self.manager.restart_kernel(now=True, env=self.env)
        self.log.clear()
        self.replies.clear()
        self.connect()


def parent(message: Message) -> str:
    """The id of the request that a message answers."""
    return str(message["parent_header"].get("msg_id", ""))


@contextmanager
def running_kernel(
    home: Path, *, cwd: Path | None = None, python: str = sys.executable, extra_env: dict[str, str] | None = None
) -> Iterator[Kernel]:
    """A kernel whose user folders lie below ``home`` and which works in ``cwd``."""
    env = isolated_env(home, **(extra_env or {}))
    specs = KernelSpecManager(kernel_dirs=[str(write_kernelspec(home, python))])
    manager = KernelManager(kernel_name="python3", kernel_spec_manager=specs)
    manager.connection_file = str(home / "runtime" / f"kernel-{os.urandom(4).hex()}.json")
    manager.start_kernel(env=env, cwd=str(cwd or home))
    kernel = Kernel(manager, env)
    try:
        kernel.connect()
        yield kernel
    finally:
        if kernel.client is not None:
            kernel.client.stop_channels()
        manager.shutdown_kernel(now=True)
