"""A library beside jsonschema whose import takes seconds is not imported for arguments, and still there for others."""

import os
import subprocess
import sys
from pathlib import Path

SLOW = """
import sys
print("imported", file=sys.stderr)
other = 5
def is_valid_syntax(term, value):
    return value == term
"""
USE = """
import sys
from kestrel_nb.runtime.validation import validate_arguments
schema = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 3, "format": "iri"}}}
assert validate_arguments(schema, {"n": 3}) == []
assert [issue.path for issue in validate_arguments(schema, {"n": 4})] == ["n"]
assert "jsonschema" in sys.modules and "rfc3987_syntax" not in sys.modules
print("validated", file=sys.stderr)
"""
LATER = """
import jsonschema
formats = jsonschema.FormatChecker(["iri", "iri-reference"])
assert formats.conforms("iri", "iri") and not formats.conforms("other", "iri")
assert formats.conforms("iri_reference", "iri-reference")
import rfc3987_syntax
assert rfc3987_syntax.other == 5 and rfc3987_syntax.__file__
"""


def run(folder: Path, code: str, *, slow: bool = True) -> list[str]:
    if slow:
        (folder / "rfc3987_syntax.py").write_text(SLOW, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.fspath(folder)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr.split()


def test_it_is_imported_when_it_is_used(tmp_path: Path) -> None:
    assert run(tmp_path, USE + LATER) == ["validated", "imported"]


def test_who_imported_the_library_before_has_it_as_ever(tmp_path: Path) -> None:
    code = "import jsonschema\n" + USE.replace(' and "rfc3987_syntax" not in sys.modules', "")
    assert run(tmp_path, code + LATER) == ["imported", "validated"]


def test_who_takes_it_first_has_it_as_ever(tmp_path: Path) -> None:
    code = "import rfc3987_syntax\n" + USE.replace(' and "rfc3987_syntax" not in sys.modules', "")
    assert run(tmp_path, code + LATER) == ["imported", "validated"]


def test_without_it_nothing_changes(tmp_path: Path) -> None:
    hidden = "import sys\nsys.modules['rfc3987_syntax'] = None\n"
    code = USE.replace('"rfc3987_syntax" not in sys.modules', "sys.modules['rfc3987_syntax'] is None")
    assert run(tmp_path, hidden + code, slow=False) == ["validated"]
