"""YAML and Markdown files, and the lines of what is in them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from amplifier_foundation.documents import Document, parse_document, read_document
from amplifier_foundation.errors import DocumentError, FoundationError
from amplifier_foundation.plan.lock_file import BundleLock
from amplifier_foundation.policy.policy_file import read_policy_file
from amplifier_foundation.settings.settings import read_settings_file

_YAML = Path("f.yaml")
_MARKDOWN = Path("f.md")


def _yaml(text: str) -> Document:
    return parse_document(_YAML, text.encode())


def test_lines_of_keys() -> None:
    """Every entry, nested in mappings and lists of either style, has the line it stands on."""
    document = _yaml(
        """\
a: 1

b:
  c:
    - x
    - d: 1
      e: {f: 1,
        g: 2}
"3": text
4: number
"""
    )
    lines = {
        (): 1,
        ("a",): 1,
        ("b",): 3,
        ("b", "c"): 4,
        ("b", "c", 0): 5,
        ("b", "c", 1): 6,
        ("b", "c", 1, "e"): 7,
        ("b", "c", 1, "e", "g"): 8,
        ("3",): 9,
        ("4",): 10,
    }
    for keys, line in lines.items():
        assert document.line(*keys) == line
        assert document.where(*keys) == f"f.yaml:{line}"


def test_lines_of_keys_that_are_no_text() -> None:
    """A key that YAML takes for a number, a truth value or nothing has its line, also where texts look like it."""
    document = _yaml('a: 1\n"7": text\n7: number\non: switch\nnull: nothing\n2026-01-31: day\n')
    lines = [document.line(key) for key in document.data]
    assert lines == [1, 2, 3, 4, 5, 6]
    assert _yaml("7: one\nb: 2\n").line(1) == 1


def test_line_of_what_is_not_there_is_that_of_the_nearest_around_it() -> None:
    """Asking for the line of a missing key, a wrong index or below a plain value gives the place it would be in."""
    document = _yaml("a: 1\nb:\n  - x\n")
    assert document.line("gone") == 1
    assert document.line("b", 7) == 2
    assert document.line("b", -1) == 2
    assert document.line("b", "x") == 2
    assert document.line("b", 0, "deep", "er") == 3
    assert document.line("a", "b") == 1
    assert Document(Path("x")).where("a") == "x:1"


def test_front_matter_counts_lines_of_the_file() -> None:
    """Lines of front matter are those of the Markdown file; the body is what follows, stripped."""
    document = parse_document(_MARKDOWN, b"---\na: 1\nb: 2\n---\n\nBe kind.\n---\nStill body.\n\n")
    assert document.data == {"a": 1, "b": 2}
    assert (document.line("a"), document.line("b")) == (2, 3)
    assert document.body == "Be kind.\n---\nStill body."


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("path", [_YAML, _MARKDOWN])
def test_bom_and_line_ends(path: Path, newline: str, bom: bytes) -> None:
    """A byte order mark and Windows line ends change neither content nor lines."""
    text = "---\na: ü\nb:\n  - 1\n---\nBody.\n" if path is _MARKDOWN else "# first\na: ü\nb:\n  - 1\n"
    document = parse_document(path, bom + text.replace("\n", newline).encode())
    assert document.data == {"a": "ü", "b": [1]}
    assert (document.line("a"), document.line("b", 0)) == (2, 4)
    assert document.body == ("Body." if path is _MARKDOWN else "")


@pytest.mark.parametrize(
    ("text", "data", "body"),
    [
        ("", {}, ""),
        ("Just words.\n---\nx", {}, "Just words.\n---\nx"),
        ("---\n---\nBody", {}, "Body"),
        ("---\n# nothing\n---\nBody", {}, "Body"),
        ("--- \na: 1\n---  \n", {"a": 1}, ""),
        ("---\na: |\n  ---\n  x\n---\nBody", {"a": "---\nx\n"}, "Body"),
        ("----\na: 1\n", {}, "----\na: 1"),
    ],
)
def test_front_matter_shapes(text: str, data: dict[str, Any], body: str) -> None:
    """Front matter starts at a first line `---` and ends at the next unindented one; without it all is body."""
    document = parse_document(_MARKDOWN, text.encode())
    assert (document.data, document.body) == (data, body)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null\n", "~"])
def test_empty_files_are_empty_mappings(text: str) -> None:
    """An empty file is not an error."""
    assert _yaml(text).data == {}


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        (_YAML, b"a: 1\nb: \xff\n", "f.yaml:2: not UTF-8"),
        (_YAML, b"\xff\xfea\x00", "f.yaml:1: not UTF-8"),
        (_MARKDOWN, b"---\na: 1\n", "f.md:1: the front matter opened by '---' is never closed"),
        (_MARKDOWN, b"---\na: 1\nb: [\n---\n", "f.md:4: malformed YAML"),
        (_YAML, b"a: [\n", "f.yaml:2: malformed YAML"),
        (_YAML, b"a: 1\n\tb: 2\n", "f.yaml:2: malformed YAML"),
        (_YAML, b"a: 1\nb: *nowhere\n", "f.yaml:2: malformed YAML"),
        (_YAML, b"a: 1\n---\nb: 1\n", "f.yaml:2: malformed YAML"),
        (_YAML, b"a: 1\nb: !mine x\n", "f.yaml:2: malformed YAML"),
        (_YAML, b"a: 1\nb: !!python/name:os.system x\n", "f.yaml:2: malformed YAML"),
        (_YAML, b"a: 2024-99-99\n", "f.yaml:1: malformed YAML"),
        (_YAML, b"a: 1\nb: \x07\n", "malformed YAML"),
        (_YAML, b"a: !!int ''\n", "f.yaml:1: malformed YAML"),
        (_YAML, b"a: !!bool x\n", "f.yaml:1: malformed YAML"),
        (_YAML, b"a: !!timestamp x\n", "f.yaml:1: malformed YAML"),
        (_YAML, b"a: " + b"9" * 5_000, "f.yaml:1: malformed YAML"),
        (_YAML, b"{[1]: 2}\n", "f.yaml:1: a list or a mapping cannot be a key"),
        (_YAML, b"a: 1\n? &a [*a]\n: 1\n", "f.yaml:2: a list or a mapping cannot be a key"),
        (_YAML, b"- a\n", "f.yaml:1: must be a mapping of keys, got list"),
        (_MARKDOWN, b"---\ntext\n---\n", "f.md:2: must be a mapping of keys, got str"),
        (_YAML, b"a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "f.yaml:5: the key 'c' is given twice"),
        (_MARKDOWN, b"---\na: 1\na: 1\n---\n", "f.md:3: the key 'a' is given twice"),
        (_YAML, b"x: [{a: 1, a: 2}]\n", "f.yaml:1: the key 'a' is given twice"),
        (_YAML, b"a: 1\n'a': 2\n", "f.yaml:2: the key 'a' is given twice"),
        (_YAML, b"x: 1\na: &a {b: *a}\n", "f.yaml:2: a value that contains itself"),
        (_YAML, b"a: &a [1, [*a]]\n", "f.yaml:1: a value that contains itself"),
        (_YAML, b"a:\n " + b"[" * 100_000, "f.yaml:2: values are nested more than 100 levels deep"),
        (_YAML, b"a: " + b"{a: " * 5_000 + b"}" * 5_000, "f.yaml:1: values are nested more than 100 levels deep"),
        (_YAML, b"a:\n  " + b"- " * 100_000 + b"x", "f.yaml:2: values are nested more than 100 levels deep"),
        (_MARKDOWN, b"---\n" + b"? " * 200 + b"x\n---\n", "f.md:2: values are nested more than 100 levels deep"),
    ],
)
def test_faults_name_file_and_line(path: Path, content: bytes, said: str) -> None:
    """Every fault is reported with file and line and nothing else is raised."""
    with pytest.raises(DocumentError) as caught:
        parse_document(path, content)
    assert said in str(caught.value)
    assert caught.value.code == "file_invalid"


def test_same_key_in_other_mappings_and_of_other_types() -> None:
    """Keys are given twice only in one mapping and one type; merge keys may be repeated."""
    document = _yaml("a: {x: 1}\nb: {x: 1}\n1: n\n'1': t\nc: &c {y: 1}\nd: {<<: *c, z: 1}\n")
    assert document.data["d"] == {"y": 1, "z": 1}
    assert document.data[1] == "n"  # type: ignore[index]
    assert document.data["1"] == "t"


def test_shared_anchors_are_no_circle() -> None:
    """A value used in several places is fine, and each place has a line."""
    document = _yaml("a: &x {b: [1]}\nc: *x\nd: [*x, *x]\n")
    assert document.data["d"] == [{"b": [1]}, {"b": [1]}]
    assert document.line("d", 1) == 1
    assert document.line("c") == 2


def test_entries_of_a_list_are_read_one_by_one() -> None:
    """One that cannot be read is reported with its line; the others, and their lines, are as without it."""
    text = "a:\n  - {b: 1}\n  - {b: 1, b: 2}\n  - &x {c: 3}\n  - b: !!int x\n  - {<<: *x, d: 4}\n"
    document = parse_document(_YAML, text.encode(), each_of="a")
    first, twice, third, number, last = document.data["a"]
    assert (first, third, last) == ({"b": 1}, {"c": 3}, {"c": 3, "d": 4})
    assert (twice.line, number.line) == (3, 5)
    assert "given twice" in twice.message
    assert "invalid literal" in number.message
    assert [document.line("a", index) for index in range(5)] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("text", ["a: [1]\nb: 1\nb: 2\n", "a: [{}\n", "a: !!int x\n", "a: [1]\nb: !!int x\n"])
def test_what_is_wrong_beside_the_entries_is_an_error(text: str) -> None:
    """Only the entries of the list are read one by one."""
    with pytest.raises(DocumentError, match=r"f\.yaml:\d"):
        parse_document(_YAML, text.encode(), each_of="a")


def test_deep_but_sane_values_are_read() -> None:
    """A hundred levels are as good as one, in either style."""
    depth = 98
    assert _yaml("a: " + "[" * depth + "]" * depth).data
    block = "".join(f"{' ' * level}a:\n" for level in range(depth)) + " " * depth + "a: 1\n"
    assert _yaml(block).line(*["a"] * 50) == 50


def test_anchors_cannot_be_used_to_fill_the_memory() -> None:
    """A file whose anchors multiply to thousands of millions is read or refused at once."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(DocumentError, match="anchors"):
        _yaml("\n".join(lines))


def test_read_document_tells_what_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, and a folder in place of one, are faults of that path."""
    with pytest.raises(DocumentError, match=r"gone\.yaml: there is no such file"):
        read_document(tmp_path / "gone.yaml")
    with pytest.raises(DocumentError, match=r"cannot be read: Is a directory"):
        read_document(tmp_path)
    (tmp_path / "f.yaml").write_text("a: 1")
    with pytest.raises(DocumentError, match="cannot be read: Not a directory"):
        read_document(tmp_path / "f.yaml" / "x.yaml")
    assert read_document(tmp_path / "f.yaml").data == {"a": 1}


_KEYS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=5)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=10,
)


def _paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    entries: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    return [at, *(path for key, item in entries for path in _paths(item, (*at, key)))]


@given(data=st.dictionaries(_KEYS, _VALUES, max_size=4), flow=st.booleans(), body=st.text(max_size=20))
def test_any_data_is_read_back_with_lines_in_order(data: dict[str, Any], flow: bool, body: str) -> None:
    """What is written is what is read, in YAML and in front matter, and lines never go backwards."""
    assume("\x00" not in body)
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    assume("\n---" not in text and not text.startswith("---"))
    plain = parse_document(_YAML, text.encode())
    front = parse_document(_MARKDOWN, f"---\n{text}---\n{body}".encode())
    assert plain.data == front.data == data
    assert front.body == body.strip()
    lines = [plain.line(*path) for path in _paths(data)]
    assert lines == sorted(lines)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines)
    assert [front.line(*path) for path in _paths(data)][1:] == [line + 1 for line in lines][1:]


@given(st.binary(max_size=60) | st.text("ab:-[]{}&*!|>\n \t'\"#?,%@`", max_size=30).map(str.encode))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    """No content whatever raises anything but DocumentError, which starts with the file."""
    for path in (_YAML, _MARKDOWN):
        try:
            assert isinstance(parse_document(path, content).data, dict)
        except DocumentError as error:
            if not str(error).startswith(f"{path}:"):
                raise


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\na: 1\n---\nbody\n", 4),
        ("---\na: 1\n---\n\n\n  body\n", 6),
        ("---\r\na: 1\r\n---\r\n\r\nbody", 5),
        ("body\nmore", 1),
        ("\n\nbody", 3),
    ],
)
def test_the_body_has_a_line(text: str, line: int) -> None:
    """Where the instruction starts is known, blank lines before it left out."""
    document = parse_document(Path("x.md"), text.encode())
    assert document.body.startswith("body")
    assert document.body_line == line


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    """A pipe is not waited for and a device not read, for bundles, settings, rules and locks; the error names it."""
    path = tmp_path / "x.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    readers: tuple[Callable[[Path], Any], ...] = (read_document, read_settings_file, BundleLock.read)
    for read in readers:
        with pytest.raises(FoundationError, match=r"x\.yaml: cannot be read: not a regular file"):
            read(path)
    source = read_policy_file(path, "project")
    assert source is not None
    assert "not a regular file" in source.problems[0].message
