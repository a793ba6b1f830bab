"""Records ``notebooks/03_real_models.ipynb`` and its cassette: ``python tests/record_notebook.py [NOTEBOOK [PORT]]``.

It starts llama.cpp's own server with SmolLM2-135M on PORT (8080, as the notebook says), runs the cells in a kernel that
records, presses the buttons of the cards as a person would, and saves the notebook with its outputs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "kernels"), str(HERE / "peers"), str(HERE)]

from front_end import RunPage  # noqa: E402
from harness import Kernel, Outcome, running_kernel  # noqa: E402
from peer_servers import PeerServer, llama_command  # noqa: E402

NOTEBOOK = HERE.parent / "notebooks" / "03_real_models.ipynb"
PORT = 8080
CONTEXT = 2048
DECLINED = {"Bergen": "only Oslo is needed"}  # requests with this word are declined, with this reason
CELL_S = 120


def record(notebook: Path, server: PeerServer, folder: Path, **extra_env: str) -> None:
    """Run the cells of ``notebook`` against ``server`` and save them with their outputs; ``folder`` is for the kernel.

    The cassette is written beside the notebook. ``extra_env`` is set in the kernel.
    """
    content = json.loads(notebook.read_text(encoding="utf-8"))
    env = {"KESTREL_CASSETTE": "record:", **extra_env}
    with running_kernel(folder, cwd=notebook.parent, extra_env=env) as kernel:
        code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
        for number, cell in enumerate(code, 1):
            source = "".join(cell["source"]).replace(f":{PORT}/", f":{server.port}/")
            outcome = run_cell(kernel, source)
            cell["execution_count"], cell["outputs"] = number, outputs_of(outcome, number)
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    notebook.write_text(text.replace(f":{server.port}/", f":{PORT}/"), encoding="utf-8")


def run_cell(kernel: Kernel, source: str) -> Outcome:
    """Run one cell, as a page in whose cards somebody presses the buttons."""
    if not source.startswith("%%kestrel"):
        return kernel.ok(source, CELL_S)
    page = RunPage(kernel, source)
    card = page.card(CELL_S)
    reason = next((why for word, why in DECLINED.items() if word in source), None)
    page.answer(card, reason is None, **({"reason": reason} if reason else {}))
    outcome = kernel.outcome(page.cell, CELL_S)
    assert outcome.status == "ok", outcome.reply
    return outcome


def outputs_of(outcome: Outcome, number: int) -> list[dict[str, Any]]:
    """What a notebook keeps of a cell's messages."""
    results = [m["content"] for m in outcome.messages if m["msg_type"] == "execute_result"]
    kept = []
    for data in outcome.displayed:
        result = next((content for content in results if content["data"] == data), None)
        kind: dict[str, Any] = {"output_type": "display_data"}
        if result is not None:
            kind = {"execution_count": number, "output_type": "execute_result"}
        lines = {mime: text.splitlines(keepends=True) for mime, text in sorted(data.items())}
        kept.append({"data": lines, "metadata": {}, **kind})
    return kept


def main(arguments: list[str]) -> None:
    """Record the notebook that is named, or the one in the repository."""
    notebook = Path(arguments[0]) if arguments else NOTEBOOK
    with tempfile.TemporaryDirectory() as place:
        port = int(arguments[1]) if len(arguments) > 1 else PORT
        server = PeerServer("llama", llama_command(CONTEXT), Path(place), ready="/health", port=port)
        try:
            record(notebook, server, Path(place))
        finally:
            server.end()
    Path(f"{notebook.with_suffix('.jsonl')}.bak").unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
