"""The notebook of real models recorded anew: what is recorded plays, and no key stands in anything that was written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from harness import running_kernel
from peer_servers import PeerServer
from record_notebook import NOTEBOOK, record
from test_recorded_notebook import NO_NETWORK, assert_no_network, replayed, saved

PLANTED = "sk-planted-4f1Qx7ZbT9wLm2KcR8vN"


def leaking(notebook: Path, port: int) -> None:
    """Let the notebook's model send a key, and its tool tell it."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        source = "".join(cell["source"])
        source = source.replace('    "smollm2",\n', '    "smollm2",\n    api_key=os.environ["OPENAI_API_KEY"],\n')
        source = source.replace('"Wednesday"]', 'os.environ["OPENAI_API_KEY"]]').replace(":8080/", f":{port}/")
        cell["source"] = source.replace("import pandas as pd", "import os\n\nimport pandas as pd")
    notebook.write_text(json.dumps(content), encoding="utf-8")


def written(folder: Path) -> dict[str, bytes]:
    """Everything below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_recorded_plays_and_holds_no_key(llama_server: PeerServer, tmp_path: Path) -> None:
    notebook = tmp_path / "work" / NOTEBOOK.name
    notebook.parent.mkdir()
    shutil.copy(NOTEBOOK, notebook)
    leaking(notebook, llama_server.port)
    home = tmp_path / "recording"
    home.mkdir()
    record(notebook, llama_server, home, OPENAI_API_KEY=PLANTED)

    cells = saved(notebook)
    assert "***" in notebook.read_text(encoding="utf-8")
    with running_kernel(tmp_path / "replaying", cwd=notebook.parent, extra_env={"OPENAI_API_KEY": PLANTED}) as kernel:
        kernel.ok(NO_NETWORK)
        assert replayed(kernel, cells) == [cell["outputs"] for cell in cells]
        assert_no_network(kernel)

    files = written(tmp_path)
    assert any(name.endswith("03_real_models.jsonl") for name in files)
    assert any("sessions" in name for name in files), "no session was stored"
    for part in (PLANTED, PLANTED[3:20], PLANTED[-16:]):
        assert [name for name, data in files.items() if part.encode() in data] == []
