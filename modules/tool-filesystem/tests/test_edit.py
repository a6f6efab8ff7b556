"""`edit_file` changes what was meant and nothing else, or says why not."""

from __future__ import annotations

import codecs
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amplifier_kit.guard.files.place import FileError
from amplifier_kit.guard.files.text import decode, encode
from amplifier_module_tool_filesystem import match as match_module
from amplifier_module_tool_filesystem.match import edit


async def test_one_place(desk: Any, project: Path) -> None:
    """One occurrence is replaced; result and event have the published shape."""
    file = project / "a.py"
    file.write_text("def f():\n    return 1\n", encoding="utf-8")
    result = await desk.done("edit_file", file_path="a.py", old_string="return 1", new_string="return 22")
    assert result == {"file_path": str(file), "replacements_made": 1, "bytes_written": 23}
    assert file.read_text(encoding="utf-8") == "def f():\n    return 22\n"
    assert desk.events == [("artifact:write", {"path": str(file), "bytes": 23})]


async def test_every_place(desk: Any, project: Path) -> None:
    """With replace_all every occurrence is replaced, and counted."""
    (project / "a").write_text("x x\nxx\n", encoding="utf-8")
    result = await desk.done("edit_file", file_path="a", old_string="x", new_string="", replace_all=True)
    assert result["replacements_made"] == 4
    assert (project / "a").read_bytes() == b" \n\n"


async def test_several_places_are_refused(desk: Any, project: Path) -> None:
    """Without replace_all the text must be unique; the message has the lines."""
    (project / "a").write_text("x\ny\nx\n", encoding="utf-8")
    code, message = await desk.refused("edit_file", file_path="a", old_string="x", new_string="z")
    assert code == "not_unique"
    assert "2 times" in message
    assert "lines 1, 3" in message
    (project / "b").write_text("aaa\n", encoding="utf-8")
    assert (await desk.refused("edit_file", file_path="b", old_string="aa", new_string="z"))[0] == "not_unique"
    assert (project / "a").read_text(encoding="utf-8") == "x\ny\nx\n"


async def test_not_found_shows_the_nearest_lines(desk: Any, project: Path) -> None:
    """When the text is not there, the message shows what comes nearest, with line numbers."""
    (project / "a.py").write_text("import os\n\n\ndef compute(value):\n    return value * 2\n", encoding="utf-8")
    code, message = await desk.refused(
        "edit_file", file_path="a.py", old_string="def compute(val):\n    return val * 2", new_string="x"
    )
    assert code == "not_found_in_file"
    assert "     4\tdef compute(value):\n     5\t    return value * 2" in message
    _, message = await desk.refused("edit_file", file_path="a.py", old_string="     4\tdef compute", new_string="x")
    assert "line numbers" in message
    _, message = await desk.refused("edit_file", file_path="a.py", old_string="wholly different §", new_string="x")
    assert "Nothing in the file resembles it" in message


async def test_line_ends_of_the_file_are_kept(desk: Any, project: Path) -> None:
    """In a CRLF file, lines given with LF are found and written with CRLF, and the result says so."""
    (project / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    result = await desk.done("edit_file", file_path="a", old_string="one\ntwo", new_string="1\n1.5\n2")
    assert (project / "a").read_bytes() == b"1\r\n1.5\r\n2\r\nthree\r\n"
    assert "CRLF" in result["warning"]
    result = await desk.done("edit_file", file_path="a", old_string="three", new_string="3\n4")
    assert (project / "a").read_bytes() == b"1\r\n1.5\r\n2\r\n3\r\n4\r\n"
    assert "warning" not in result


async def test_old_line_ends_in_a_new_file(desk: Any, project: Path) -> None:
    """A file with LF stays one, although the model writes CRLF."""
    (project / "a").write_bytes(b"one\ntwo\n")
    await desk.done("edit_file", file_path="a", old_string="one\r\ntwo\r\n", new_string="1\r\n2\r\n")
    assert (project / "a").read_bytes() == b"1\n2\n"


async def test_mixed_line_ends_stay_where_they_are(desk: Any, project: Path) -> None:
    """Only what is replaced changes; places that differ in line ends alone are two places."""
    (project / "a").write_bytes(b"a\nb\nx\r\na\r\nb\r\n")
    assert (await desk.refused("edit_file", file_path="a", old_string="a\nb", new_string="c"))[0] == "not_unique"
    await desk.done("edit_file", file_path="a", old_string="a\r\nb\r\n", new_string="c\nd\n")
    assert (project / "a").read_bytes() == b"a\nb\nx\r\nc\r\nd\r\n"


async def test_white_space_that_can_be_told(desk: Any, project: Path) -> None:
    """White space at line ends and a common indentation are made up for, when one place fits; the result says so."""
    (project / "a").write_text("class A:\n    def f(self):  \n        return 1\n", encoding="utf-8")
    result = await desk.done(
        "edit_file", file_path="a", old_string="def f(self):\n    return 1", new_string="def g(self):\n\n    return 2"
    )
    assert (project / "a").read_text(encoding="utf-8") == "class A:\n    def g(self):\n\n        return 2\n"
    assert "lines 2 to 3 were taken, which are indented differently" in result["warning"]


async def test_white_space_that_cannot_be_told(desk: Any, project: Path) -> None:
    """Several places that fit nearly are none, and replace_all is never guessed."""
    text = "if a:\n    go()\nif b:\n        go()\n"
    (project / "a").write_text(text, encoding="utf-8")
    for more in ({}, {"replace_all": True}):
        code, _ = await desk.refused("edit_file", file_path="a", old_string="\tgo()", new_string="\tstop()", **more)
        assert code == "not_found_in_file"
    code, message = await desk.refused("edit_file", file_path="a", old_string="go()  \n", new_string="stop()\n")
    assert "at 2, 4" in message
    assert (project / "a").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
async def test_the_encoding_is_kept(desk: Any, project: Path, mark: bytes, encoding: str) -> None:
    """A file with a byte order mark keeps mark and encoding."""
    (project / "a").write_bytes(mark + "Grüße\r\n".encode(encoding))
    await desk.done("edit_file", file_path="a", old_string="ü", new_string="ö😀")
    assert (project / "a").read_bytes() == mark + "Grö😀ße\r\n".encode(encoding)


async def test_unknown_encodings_take_ascii(desk: Any, project: Path) -> None:
    """In a file that is not UTF-8, ASCII can be changed and all other bytes stay; other letters are refused."""
    data = "naïve café\n".encode("latin-1")
    (project / "a").write_bytes(data)
    assert (await desk.refused("edit_file", file_path="a", old_string="caf", new_string="é"))[0] == "unknown_encoding"
    await desk.done("edit_file", file_path="a", old_string="caf", new_string="cof")
    assert (project / "a").read_bytes() == data.replace(b"caf", b"cof")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"old_string": "a", "new_string": "a"}, "no_change"),
        ({"old_string": "", "new_string": "a"}, "invalid_input"),
        ({"old_string": "a"}, "invalid_input"),
        ({"old_string": "a", "new_string": "b", "replace_all": "yes"}, "invalid_input"),
        ({"old_string": "\n", "new_string": "\r\n"}, "no_change"),
    ],
)
async def test_invalid_input_is_reported(desk: Any, project: Path, wrong: dict[str, Any], code: str) -> None:
    """Equal texts, empty ones and missing ones are refused, and the file stays."""
    (project / "f").write_bytes(b"a\r\n")
    assert (await desk.refused("edit_file", file_path="f", **wrong))[0] == code
    assert (project / "f").read_bytes() == b"a\r\n"


async def test_what_cannot_be_edited(desk: Any, project: Path) -> None:
    """Missing files, folders and binary files are refused."""
    (project / "folder").mkdir()
    (project / "binary").write_bytes(b"a\0")
    change = {"old_string": "a", "new_string": "b"}
    code, message = await desk.refused("edit_file", file_path="missing", **change)
    assert (code, "write_file" in message) == ("not_found", True)
    assert (await desk.refused("edit_file", file_path="folder", **change))[0] == "is_directory"
    assert (await desk.refused("edit_file", file_path="binary", **change))[0] == "binary_file"


async def test_what_must_not_be_read_is_not_edited(make_desk: Callable[..., Awaitable[Any]], project: Path) -> None:
    """An edit shows lines of the file when it fails, so it needs the right to read too."""
    (project / "a").write_text("secret\n", encoding="utf-8")
    (project / "open").mkdir()
    desk = await make_desk(allowed_read_paths=["open"])
    code, message = await desk.refused("edit_file", file_path="a", old_string="secrat", new_string="x")
    assert (code, "secret" in message) == ("outside_allowed_paths", False)
    (project / "open" / "a").write_text("secret\n", encoding="utf-8")
    os.link(project / "open" / "a", project / "open" / "b")
    assert (await desk.refused("edit_file", file_path="open/a", old_string="s", new_string="x"))[0] == "hard_link"


async def test_two_edits_at_once_are_both_there(desk: Any, project: Path) -> None:
    """Calls of one turn run at the same time; none undoes another."""
    import asyncio

    (project / "a").write_text("".join(f"<{n}>\n" for n in range(20)), encoding="utf-8")
    calls = [desk.done("edit_file", file_path="a", old_string=f"<{n}>", new_string=f"[{n}]") for n in range(20)]
    await asyncio.gather(*calls)
    assert (project / "a").read_text(encoding="utf-8") == "".join(f"[{n}]\n" for n in range(20))


LETTERS = st.sampled_from(["a", "b", "\n", "\r\n", " ", "ü"])
TEXTS = st.lists(LETTERS, max_size=12).map("".join)


@given(text=TEXTS, old=TEXTS.filter(bool), new=TEXTS, replace_all=st.booleans())
def test_only_what_was_found_changes(text: str, old: str, new: str, replace_all: bool) -> None:
    """An edit is what replacing is, line ends aside; and lines outside of it stay byte by byte."""
    assume(old != new)
    source = decode(text.encode(), "f")
    plain, plain_old, plain_new = (one.replace("\r\n", "\n") for one in (text, old, new))
    try:
        edited = edit(source, "f", old, new, replace_all=replace_all)
    except FileError:
        assert replace_all <= (plain_old not in plain)
        return
    result = edited.text.replace("\r\n", "\n")
    if plain_old in plain:
        assert result == plain.replace(plain_old, plain_new) or (edited.replacements == 1 and not replace_all)
    else:
        assert edited.notes
    if source.format.is_crlf:
        assert "\n" not in edited.text.replace("\r\n", "")
    elif "\r" not in text and "\r" not in new:
        assert "\r" not in edited.text
    assert encode(edited.text, source.format, "f").decode() == edited.text


PARTS = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r", " ", "ü"]), max_size=12).map("".join)


@given(text=PARTS, old=PARTS.filter(bool), new=PARTS, end=st.sampled_from([None, "\n", "\r\n", "\r"]))
def test_replacing_in_one_go_is_replacing_one_by_one(text: str, old: str, new: str, end: str | None) -> None:
    """Replacing everywhere at once gives what replacing place by place does, whatever ends the lines."""
    assume(old != new)
    source = decode((text if end is None else end.join(text.splitlines())).encode(), "f")
    outcomes: list[Any] = []
    for is_at_once in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not is_at_once:
                patch.setattr(match_module, "_everywhere", lambda *_: None)
            try:
                outcomes.append(edit(source, "f", old, new, replace_all=True))
            except FileError as error:
                outcomes.append(error.message)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\na,b\n"])
def test_countless_places_take_little_memory(end: str) -> None:
    """Replacing half a million places takes a few times the size of the text, and refusing them takes no more."""
    import tracemalloc

    source = decode(f"a,b,c,d,e{end}".encode() * 125_000, "f")
    places = source.text.count(",")
    tracemalloc.start()
    try:
        assert edit(source, "f", ",", ";", replace_all=True).replacements == places
        with pytest.raises(FileError, match=r"more than 1000 times in f, at lines 1, 1, 1, 1, 2, .* and many more"):
            edit(source, "f", ",", ";", replace_all=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * len(source.text)


@pytest.mark.parametrize("text", ["a,\n" * 1000, "a,\r\nb,\n" * 500])
async def test_a_text_that_would_grow_without_bounds_is_refused(desk: Any, project: Path, text: str) -> None:
    """Replacements that make more than can ever be edited again are refused before they take any memory."""
    (project / "a").write_bytes(text.encode())
    change = {"old_string": ",", "new_string": "x" * 100_000, "replace_all": True}
    code, message = await desk.refused("edit_file", file_path="a", **change)
    assert (code, "1,000 replacements" in message) == ("too_large", True)
    assert (project / "a").read_bytes() == text.encode()
