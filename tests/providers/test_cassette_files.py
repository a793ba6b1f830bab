"""The file of a cassette: what is no cassette, what was cut off, who else writes. Every mistake is one line."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb.protocol.errors import CodecError, StoreError, UsageError
from kestrel_nb.providers.cassette import Cassette
from kestrel_nb.providers.cassette_answer import Answer
from kestrel_nb.providers.cassette_file import VERSION, CassetteFile
from kestrel_nb.providers.cassette_text import Places, clean, loose, recut, strict, without_credentials
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse
from kestrel_nb.runtime.secrets import Masker
from kestrel_nb.testing import ScriptedModel

HEADER = json.dumps({"kestrel": "cassette", "version": VERSION, "madeBy": "kestrel-nb 0.1.0"})
ASK = CompletionRequest(model="m", messages=())


def kept(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


async def recorded(path: Path, *texts: str, mode: Any = "record") -> None:
    """A cassette with a reply for each text, all to the same request."""
    cassette = Cassette(path, mode)
    model = cassette.model("m", lambda: ScriptedModel(list(texts), id="m"), "/nowhere")
    for _ in texts:
        await model.generate(ASK)
    cassette.close()


async def played(path: Path) -> list[str]:
    cassette, texts = Cassette(path, "replay"), []
    cassette.open()
    model = cassette.model("m", lambda: ScriptedModel([]), "/nowhere")
    while cassette.unused:
        texts.append((await model.generate(ASK)).content)
    return texts


@pytest.mark.parametrize("mode", ["record", "auto", "replay"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "is no cassette"),
        ("hello", "is no cassette"),
        ('{"a": 1}\n', "is no cassette"),
        ("[1]\n", "is no cassette"),
        ('{"kestrel": "cassette"}\n', "is no cassette"),
        (HEADER.replace(f'"version": {VERSION}', '"version": 99') + "\n", "newer kestrel-nb (format 99"),
        ("<<<<<<< HEAD\n" + HEADER + "\n=======\n", "line 1 of"),
    ],
)
def test_what_is_no_cassette_is_left_alone(tmp_path: Path, mode: Any, text: str, said: str) -> None:
    path = kept(tmp_path / "x.jsonl", text)
    with pytest.raises(UsageError) as caught:
        Cassette(path, mode).open()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_text("utf-8") == text
    assert os.listdir(tmp_path) == ["x.jsonl"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER + "\n<<<<<<< HEAD\n" + HEADER + "\n", "line 2 of {path} is left from a merge"),
        (HEADER + "\nhello\n", "line 2 of {path} is damaged; mend it, or record again"),
        (HEADER + '\n{"kind": "reply"\n{"kind": "reply"}\n', "line 2 of {path} is damaged"),
    ],
)
async def test_a_damaged_cassette_can_be_recorded_again(tmp_path: Path, text: str, said: str) -> None:
    path = kept(tmp_path / "x.jsonl", text)
    for mode in ("auto", "replay"):
        with pytest.raises(UsageError) as caught:
            Cassette(path, mode).open()  # type: ignore[arg-type]
        assert said.format(path=path) in str(caught.value)
    cassette = Cassette(path, "record")
    cassette.open()
    cassette.close()
    assert path.read_text("utf-8") == text
    await recorded(path, "one")
    assert await played(path) == ["one"]
    backup = tmp_path / "x.jsonl.bak"
    assert not backup.exists() or backup.read_text("utf-8") == text
    assert backup.exists() == ('"reply"}' in text)


@pytest.mark.parametrize("mode", ["record", "auto", "replay"])
@pytest.mark.parametrize("name", ["", "no/such/x.jsonl", "x\0.jsonl"])
def test_a_bad_path_is_one_line(tmp_path: Path, mode: Any, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        Cassette(os.path.join(tmp_path, name) if name else tmp_path, mode).open()
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_cassette_that_is_not_there_or_empty_can_not_be_played(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no cassette .*%kestrel record"):
        Cassette(tmp_path / "x.jsonl", "replay").open()
    for text in ("", HEADER, f"{HEADER}\n", f'{HEADER}\n{{"kind'):
        with pytest.raises(UsageError, match="is empty"):
            Cassette(kept(tmp_path / "e.jsonl", text), "replay").open()
    (tmp_path / "e.jsonl").write_text(f"{HEADER}\n", "utf-16")
    with pytest.raises(UsageError, match="UTF-16"):
        Cassette(tmp_path / "e.jsonl", "replay").open()


async def test_the_header_tells_no_time_host_or_path(tmp_path: Path) -> None:
    await recorded(tmp_path / "x.jsonl", "one")
    header = json.loads((tmp_path / "x.jsonl").read_text("utf-8").splitlines()[0])
    assert set(header) == {"kestrel", "version", "madeBy", "model"}
    assert header["model"] == "m"


async def test_a_torn_last_line_is_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    await recorded(path, "one", "two")
    whole = path.read_bytes()
    for end in (len(whole) - 2, len(whole) - 20, len(whole) - 60):
        path.write_bytes(whole[:end])
        assert await played(path) == ["one"]
        cassette = Cassette(path, "replay")
        cassette.open()
        assert "its last line is not whole" in cassette.note
    await recorded(path, "three", mode="auto")  # plays the first
    cassette = Cassette(path, "auto")
    model = cassette.model("m", lambda: ScriptedModel(["new"], id="m"), "/nowhere")
    assert [(await model.generate(ASK)).content for _ in "12"] == ["one", "new"]
    cassette.close()
    assert await played(path) == ["one", "new"]


async def test_two_do_not_write_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    await recorded(path, "one")
    first = Cassette(path, "record")
    first.open()
    with pytest.raises(UsageError, match="another notebook or program is recording into"):
        Cassette(path, "record").open()
    code = f"from kestrel_nb import Cassette; Cassette({str(path)!r}, 'record').open()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)  # noqa: ASYNC221
    assert "another notebook or program is recording into" in done.stderr
    assert await played(path) == ["one"]
    second = Cassette(path, "auto")  # what is there can be played meanwhile
    model = second.model("m", lambda: ScriptedModel(["new"], id="m"), "/nowhere")
    assert (await model.generate(ASK)).content == "one"
    with pytest.raises(UsageError, match="another notebook or program is recording into"):
        await model.generate(ASK)
    assert await played(path) == ["one"]
    first.close()
    await recorded(path, "two")


async def test_a_killed_recording_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    code = f"""
import asyncio, os
from kestrel_nb import Cassette
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse
from kestrel_nb.testing import ScriptedModel
async def main():
    cassette = Cassette({str(path)!r}, "record")
    model = cassette.model("m", lambda: ScriptedModel(["one", "two"], id="m"), "/nowhere")
    for _ in range(2):
        await model.generate(CompletionRequest(model="m", messages=()))
    os._exit(9)
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 9  # noqa: ASYNC221
    assert await played(path) == ["one", "two"]


async def test_a_file_that_was_deleted_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    cassette = Cassette(path, "record")
    model = cassette.model("m", lambda: ScriptedModel(["one", "two"], id="m"), "/nowhere")
    await model.generate(ASK)
    path.unlink()
    with pytest.raises(StoreError, match="was moved or deleted"):
        await model.generate(ASK)
    cassette.close()


@pytest.mark.parametrize("mode", ["replay", "auto"])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data[:-1],
        lambda data: data.replace(b"\n", b"\r\n")[:-2],
        lambda data: data.replace(b"\n", b"\n\n") + b"  ",
        lambda data: data + data,
    ],
)
async def test_what_editors_and_git_do_to_a_file_does_no_harm(tmp_path: Path, mode: Any, change: Any) -> None:
    path = tmp_path / "x.jsonl"
    await recorded(path, "one", "two")
    whole = change(path.read_bytes())
    path.write_bytes(whole)
    cassette = Cassette(path, mode)
    model = cassette.model("m", lambda: ScriptedModel([], id="m"), "/nowhere")
    assert [(await model.generate(ASK)).content for _ in "12"] == ["one", "two"]
    assert cassette.note == ""
    cassette.close()
    assert path.read_bytes() == whole
    await recorded(path, *["three"] * 3, mode="auto")
    assert set(await played(path)) <= {"one", "two", "three"}


async def test_a_file_that_another_program_changes_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    cassette = Cassette(path, "record")
    model = cassette.model("m", lambda: ScriptedModel(["one", "two", "three"], id="m"), "/nowhere")
    await model.generate(ASK)
    for text in (path.read_text("utf-8") + "{}\n", "", "x"):
        kept(path, text)
        with pytest.raises(StoreError, match="another program has changed it"):
            cassette.keep(
                cassette.asked(ASK, "/nowhere"), model.info, Answer(CompletionResponse(content="no"), ()), "/nowhere"
            )
        assert path.read_text("utf-8") == text
    cassette.close()


def test_nothing_said_leaves_no_file(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "x.jsonl", "record")
    cassette.open()
    cassette.close()
    assert os.listdir(tmp_path) == []


def test_odd_text_is_written_and_read(tmp_path: Path) -> None:
    file = CassetteFile(str(tmp_path / "x.jsonl"))
    file.open_for_writing()
    entries = [json.loads(HEADER), {"kind": "x", "text": "\u2028 \x85 ⟦ \ud800 é"}]
    for entry in entries:
        file.write(entry)
    file.close()
    assert CassetteFile(str(tmp_path / "x.jsonl")).read()[0] == entries


# ---- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "⟦", "⟦⟦⟧", "⟦workspace⟧/a", "/w/a b/x and /w/a bc", 'say "⟦temp:json⟧"', "/w/a b"]
)
def test_what_is_hidden_is_shown_again(text: str) -> None:
    places = Places("/w/a b")
    for quoted in (False, True):
        assert places.show(places.hide(text, quoted=quoted), quoted=quoted) == text


def test_a_folder_is_quoted_where_it_is_json() -> None:
    here, there = Places('/w/"a"'), Places("/other")
    raw = json.dumps({"path": '/w/"a"/x'})
    assert json.loads(there.show(here.hide(raw, quoted=True), quoted=True)) == {"path": "/other/x"}
    assert json.loads(here.show(there.hide('{"path": "/other/x"}', quoted=True), quoted=True)) == {"path": '/w/"a"/x'}


def test_a_folder_of_windows_is_known_with_slashes_of_both_kinds() -> None:
    there, here = Places("C:\\Users\\me\\talk"), Places("/home/me/talk")
    for text, shown in (
        ("open C:\\Users\\me\\talk\\a.py", "open /home/me/talk\\a.py"),
        ("open C:/Users/me/talk/a.py", "open /home/me/talk/a.py"),
    ):
        hidden = there.hide(text)
        assert "Users" not in hidden
        assert here.show(hidden) == shown
        assert there.show(hidden) == text
    assert here.hide("/home/me/talk/a.py") == "⟦workspace⟧/a.py"
    assert here.hide('"/home/me/talk/a.py"', quoted=True) == '"⟦workspace⟧/a.py"'


@given(st.data())
def test_pieces_joined_are_what_the_whole_becomes(data: Any) -> None:
    """However far apart the things that change stand, and wherever the pieces end."""
    places, masker = Places("/home/me/talk"), Masker(["zq-planted-key-0815"])
    bits = st.sampled_from(["word ", " /home/me/talk/a.py ", "zq-planted-key-0815", "\n", "x" * 900, "y" * 5000, "⟦a⟧"])
    text = "".join(data.draw(st.lists(bits, max_size=12)))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=20)))
    pieces = [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]
    again = list(recut(pieces, lambda piece: clean(piece, places, masker)))
    assert (len(again), "".join(again)) == (len(pieces), clean(text, places, masker))


def test_a_key_over_several_pieces_is_masked_in_one_of_them() -> None:
    mask = Masker(["planted-key-1234"]).mask
    text = "abc planted-key-1234 def"
    for size in (1, 2, 3, 7, 50):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        cut = list(recut(pieces, mask))
        assert "".join(cut) == "abc *** def"
        assert len(cut) == len(pieces)
    assert list(recut(["ab", "c"], mask)) == ["ab", "c"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer ***"),
        ('{"authorization": "Basic abcdefgh"}', '{"authorization": "Basic ***"}'),
        ("curl -H 'X-Api-Key: 1234567890'", "curl -H 'X-Api-Key: ***'"),
        ("Set-Cookie: sid=abcdef; Path=/", "Set-Cookie: ***; Path=/"),
        ("use sk-abcdefghijklmnop1234 now", "use *** now"),
        ("origin https://me:hunter2@host.example/x.git (fetch)", "origin https://me:***@host.example/x.git (fetch)"),
        ("postgres://:pw@db, http://h:80/a@b", "postgres://:***@db, http://h:80/a@b"),
        ("the author said: bears are fine", "the author said: bears are fine"),
    ],
)
def test_credentials_are_masked_once(text: str, clean: str) -> None:
    assert without_credentials(text) == clean
    assert without_credentials(clean) == clean


def test_numbers_that_json_does_not_have() -> None:
    data = {"a": [float("inf"), -float("inf"), 1.5], "$number": 1, "b": {"$literal": {"$number": "nan"}}}
    assert loose(json.loads(json.dumps(strict(data), allow_nan=False))) == data


def test_entries_of_a_wrong_form_are_one_line(tmp_path: Path) -> None:
    for bad in ('{"kind": "model"}', '{"kind": "reply", "key": "k", "messages": [1]}'):
        path = kept(tmp_path / "x.jsonl", f"{HEADER}\n{bad}\n")
        with pytest.raises(UsageError, match="is damaged") as caught:
            Cassette(path, "replay").open()
        assert not isinstance(caught.value, CodecError)
