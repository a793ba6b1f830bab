"""The script of a child process with a JavaScript engine: it runs one program, or searches with one pattern.

Its order is a JSON object: ``engine``, the folder of the engine in hexadecimal, which comes first; ``kind``, evaluate
or match, which names the file that does the work; ``heap`` in bytes; and what that file takes. The answer is
``{"ms": N, "answer": {...}}``, milliseconds of the work and what the file gives, or ``{"failed": message}``.

Only the engine reads the order: to import ``json`` takes longer than to import the engine.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the time that typing takes to import
if TYPE_CHECKING:
    from typing import Any

SPARE = 32 * 1024 * 1024  # so that the answer can be written when a program has used up its heap
STACK = 1024 * 1024  # where the platform does not say how much there is
MAX_STACK = 24 * 1024 * 1024  # for some fourteen thousand nested calls, as in other engines


def main() -> None:
    """Do what the order says."""
    order = sys.stdin.buffer.read().decode("ascii")
    sys.path.append(os.fsdecode(bytes.fromhex(order.split('"', 4)[3])))
    import _quickjs  # type: ignore[import-not-found]  # not quickjs, which starts a thread

    context = _quickjs.Context()
    context.set_max_stack_size(stack_size())
    try:
        answer = work(context, _quickjs.JSException, context.parse_json(order))
    except (_quickjs.JSException, MemoryError) as error:
        answer = context.eval("JSON.stringify")(f"{error}".partition("\n")[0])
        answer = f'{{"failed": {answer}}}'
    sys.stdout.buffer.write(answer.encode("utf-8"))


def stack_size() -> int:
    """What nested calls may take of the main thread's stack, which grows on Linux."""
    try:
        import resource
    except ImportError:
        return STACK
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = MAX_STACK * 4 // 3  # the rest is for native code below the last call
    if sys.platform == "linux" and soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    return MAX_STACK if soft == resource.RLIM_INFINITY else min(MAX_STACK, soft * 3 // 4)


def work(context: Any, failure: type[Exception], order: Any) -> str:
    """The answer to ``order``, an object of the engine."""
    heap, kind = context.eval("order => order.heap")(order), context.eval("order => order.kind")(order)
    with open(os.path.join(os.path.dirname(__file__), f"javascript_{kind}.js"), encoding="utf-8") as file:
        function = context.eval(file.read())
    context.set_memory_limit(int(heap))
    started = time.perf_counter()
    answer = function(order)
    if kind == "evaluate":
        uncaught = run_jobs(context, failure)
        context.set_memory_limit(int(heap) + SPARE)
        answer = answer(uncaught)
    return f'{{"ms": {round((time.perf_counter() - started) * 1000)}, "answer": {answer}}}'


def run_jobs(context: Any, failure: type[Exception]) -> str:
    """Do what a program has left to be done later: the first line of what none of it caught, or an empty text."""
    uncaught = ""
    while True:
        try:
            if not context.execute_pending_job():
                return uncaught
        except failure as error:
            uncaught = uncaught or f"{error}".partition("\n")[0] or "error"


main()
