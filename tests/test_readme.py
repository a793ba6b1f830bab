"""The README's code runs as printed: Python blocks as a script, cells in a real kernel, each in an empty folder."""

import json
import subprocess
import sys
from pathlib import Path

import readme_blocks
from harness import running_kernel
from readme_blocks import Block, blocks_of, readme, split

SAMPLE = """# Title

```python
x = 1
```

<!-- not run: needs a key -->

```python
raise SystemExit("must not run")
```

```sh
make lab
```

## Scripts

```python
import asyncio
await asyncio.sleep(0)
assert x == 1
loop = asyncio.get_running_loop()
```

1. In a list

   ```python
   await asyncio.sleep(0); assert asyncio.get_running_loop() is loop
   ```

## Cells

```
%load_ext kestrel_nb
```

```python
y = x + 1
```
"""


def run_script(blocks: list[Block], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run blocks in order, in one namespace, in a process that works in ``folder``."""
    text = json.dumps([(block.line, block.text) for block in blocks])
    command = [sys.executable, readme_blocks.__file__]
    return subprocess.run(command, input=text, cwd=folder, capture_output=True, text=True, timeout=100)


def run_cells(blocks: list[Block], folder: Path) -> None:
    """Run blocks as cells of one kernel that works in ``folder``."""
    workspace = folder / "workspace"
    workspace.mkdir()
    with running_kernel(folder, cwd=workspace) as kernel:
        for block in blocks:
            outcome = kernel.run(block.text, timeout=60)
            shown = "\n".join(outcome.reply.get("traceback", []))
            assert outcome.status == "ok", f"README.md line {block.line}:\n{block.text}\n{shown}"


def test_blocks_are_told_apart() -> None:
    script, cells = split(SAMPLE)
    assert [block.line for block in script] == [4, 20, 29]
    assert [block.text for block in cells] == ["%load_ext kestrel_nb", "y = x + 1"]
    assert [block.language for block in blocks_of(SAMPLE) if block.not_run] == ["python"]


def test_await_works_and_an_error_names_the_line(tmp_path: Path) -> None:
    script, _ = split(SAMPLE)
    assert run_script(script, tmp_path).returncode == 0
    bad = split(SAMPLE.replace("x == 1", "x == 2"))[0]
    assert 'File "README.md", line 22' in run_script(bad, tmp_path).stderr


def test_python_blocks_of_the_readme(tmp_path: Path) -> None:
    script, _ = split(readme().read_text(encoding="utf-8"))
    done = run_script(script, tmp_path)
    assert done.returncode == 0, done.stderr


def test_cells_of_the_readme(tmp_path: Path) -> None:
    _, cells = split(readme().read_text(encoding="utf-8"))
    if cells:
        run_cells(cells, tmp_path)
