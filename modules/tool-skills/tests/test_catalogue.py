"""What is found, what is not, and what is said about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_kit.front_matter import FrontMatterError, parse_front_matter
from amplifier_module_tool_skills import catalogue as catalogue_module
from amplifier_module_tool_skills.catalogue import Catalogue
from amplifier_module_tool_skills.roots import Roots


def scanned(project: Path, *folders: Path) -> Catalogue:
    """Return what is found in the folders, or in that of the project."""
    roots = Roots(project)
    for folder in folders or (project / ".amplifier/skills",):
        roots.add(folder)
    catalogue = Catalogue(roots)
    catalogue.scan()
    return catalogue


def put(project: Path, content: bytes, name: str = "odd") -> Path:
    """Write a SKILL.md of the project as it is."""
    file = project / ".amplifier/skills" / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def test_skills_are_found_at_any_depth_and_in_order(project: Path, skill: Any) -> None:
    """Folders are searched recursively, in the order of their names; tools' folders are not."""
    base = project / ".amplifier/skills"
    skill(base / "deep/er", "two")
    skill(base, "one")
    skill(base / "one/nested", "three")
    skill(base / "node_modules", "four")
    skill(base / "/".join("abcdefghij"), "five")
    assert list(scanned(project).skills) == ["two", "one", "three"]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"", 1, "missing front matter"),
        (b"# A title\n", 1, "missing front matter"),
        (b"---\nname: x\ndescription: y\n", 1, "is not closed"),
        (b"---\nname: x\n---\n", 1, "the key 'description' is missing"),
        (b"---\ndescription: y\nname:\n---\n", 3, "the key 'name' is missing"),
        (b"---\nname: x\ndescription: [a]\n---\n", 3, "'description' must be text"),
        (b"---\nname: x\ndescription: '  '\n---\n", 3, "'description' must be text"),
        (b"---\nname: x\ndescription: a: b\n---\n", 3, "malformed YAML"),
        (b"---\nname: x\ndescription: 'open\n---\n", 4, "malformed YAML"),
        (b"---\nname: x\nname: y\ndescription: z\n---\n", 3, "a key is given twice"),
        (b"---\nname: ../evil\ndescription: y\n---\n", 2, "must not contain slashes"),
        (b"---\nname: a\\b\ndescription: y\n---\n", 2, "must not contain slashes"),
        (b'---\nname: "a\\u202eb"\ndescription: y\n---\n', 2, "invisible characters"),
        (b"---\nname: ..\ndescription: y\n---\n", 2, "must not be empty"),
        (b"---\nname: " + b"n" * 200 + b"\ndescription: y\n---\n", 2, "at most 128 characters"),
        (b"---\n- name\n---\n", 2, "must be a mapping"),
        (b"---\n---\n", 2, "must be a mapping"),
        (b"---\n? [a]\n: b\n---\n", 2, "cannot be a key"),
        (b"---\nname: x\n\xff: y\n---\n", 3, "not UTF-8"),
        ("---\nname: x\n".encode("utf-16"), 1, "UTF-16"),
        (b"---\nname: x\ndescription: " + b"[" * 50 + b"]" * 50 + b"\n---\n", 3, "nested more than 20 levels"),
        (b"---\nname: &a x\ndescription: *a\n---\n", 3, "aliases have no place"),
        (b"---\nname: !!python/object/apply:os.system [ls]\ndescription: x\n---\n", 2, "malformed YAML"),
        (b"---\nname: x\ndate: 2024-99-99\ndescription: y\n---\n", 2, "malformed YAML: ValueError"),
    ],
)
def test_an_invalid_skill_file_is_reported_and_hides_no_other(
    project: Path, skill: Any, content: bytes, line: int, problem: str
) -> None:
    """The report starts with file and line, and the others are there."""
    file = put(project, content)
    skill(project / ".amplifier/skills", "fine")
    found = scanned(project)
    assert list(found.skills) == ["fine"]
    [said] = found.problems
    assert said.startswith(f"{file}:{line}: ")
    assert problem in said


def test_what_is_said_does_not_quote_the_file(project: Path) -> None:
    """Errors never quote the text of a file that is not a skill."""
    put(project, b"---\nkey: hunter2: hunter2 'hunter2\nhunter2: [hunter2\n---\nhunter2")
    [problem] = scanned(project).problems
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf---\nname: odd\ndescription: d\n---\nA\nB\n",
        b"---\r\nname: odd\r\ndescription: d\r\n---\r\nA\r\nB\r\n",
        b"\xef\xbb\xbf---  \r\nname: odd\r\ndescription: >\r\n  d\r\n---\r\n\r\nA\r\nB",
        b"---\rname: odd\rdescription: d\r---\rA\rB",
    ],
)
def test_marks_and_line_ends_do_not_matter(project: Path, content: bytes) -> None:
    """A byte order mark and CRLF change neither the keys nor the text."""
    put(project, content)
    found = scanned(project)
    assert found.problems == []
    odd = found.skills["odd"]
    assert odd.description == "d"
    assert found.text(odd, 1000).content == "A\nB"


def test_names_of_any_alphabet_are_compared_in_one_form(project: Path, skill: Any) -> None:
    """A composed and a decomposed spelling are one name."""
    skill(project / ".amplifier/skills", "café-日本", "Ça va.")
    found = scanned(project)
    assert found.find("cafe\u0301-日本") is found.find("café-日本") is not None


def test_the_first_folder_wins_and_the_other_is_named(project: Path, tmp_path: Path, skill: Any) -> None:
    """A second skill of a name is reported with both places."""
    first = skill(project / ".amplifier/skills", "same", "First.")
    second = skill(tmp_path / "other", "same", "Second.")
    found = scanned(project, project / ".amplifier/skills", tmp_path / "other")
    assert found.skills["same"].file == first
    assert found.problems == [f"{second}:2: the skill 'same' is also in {first}, which counts"]


def test_links_inside_the_project_are_followed_once(project: Path, skill: Any) -> None:
    """A linked folder is a skill folder, and a circle ends."""
    base = project / ".amplifier/skills"
    skill(project / "shared", "linked")
    base.mkdir(parents=True)
    (base / "to").symlink_to(project / "shared")
    (base / "circle").symlink_to(base)
    (base / "dangling").symlink_to(base / "nowhere")
    found = scanned(project)
    assert list(found.skills) == ["linked"]
    assert found.problems == []


@pytest.mark.parametrize("kind", ["file", "folder", "root"])
def test_links_out_of_the_project_are_not_followed(project: Path, tmp_path: Path, skill: Any, kind: str) -> None:
    """Neither a file, nor a folder, nor the skills folder itself may lead elsewhere."""
    secret = skill(tmp_path / "private", "secret", "hunter2", description="hunter2")
    base = project / ".amplifier/skills"
    if kind == "root":
        base.parent.mkdir()
        base.symlink_to(secret.parent.parent)
    else:
        (base / "x").mkdir(parents=True)
        target = secret if kind == "file" else secret.parent
        (base / "x" / ("SKILL.md" if kind == "file" else "y")).symlink_to(target)
    found = scanned(project)
    assert found.skills == {}
    [problem] = found.problems
    assert "leads out of the project" in problem
    assert "hunter2" not in problem


def test_a_link_that_changes_after_the_scan_is_not_followed(project: Path, tmp_path: Path, skill: Any) -> None:
    """The place is checked on what is opened when the text is read."""
    file = skill(project / ".amplifier/skills", "one")
    secret = skill(tmp_path / "private", "one", "hunter2")
    found = scanned(project)
    file.unlink()
    file.symlink_to(secret)
    with pytest.raises(catalogue_module.SkillError, match="leads out of the project"):
        found.text(found.skills["one"], 1000)


def test_the_users_own_links_are_followed(project: Path, tmp_path: Path, skill: Any) -> None:
    """Outside the project, links are their owner's business; and a project may link to such a folder."""
    skill(tmp_path / "elsewhere", "mine")
    (tmp_path / "users").mkdir()
    (tmp_path / "users/to").symlink_to(tmp_path / "elsewhere")
    assert list(scanned(project, tmp_path / "users").skills) == ["mine"]
    (project / ".amplifier").mkdir()
    (project / ".amplifier/skills").symlink_to(tmp_path / "elsewhere")
    found = scanned(project, project / ".amplifier/skills", tmp_path / "elsewhere")
    assert list(found.skills) == ["mine"]


def test_a_pipe_is_no_skill(project: Path) -> None:
    """A pipe or device in place of a skill is refused without waiting for it."""
    folder = project / ".amplifier/skills/pipe"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "SKILL.md")
    [problem] = scanned(project).problems
    assert "is not a regular file" in problem


def test_a_folder_in_place_of_a_skill_file_is_reported(project: Path, skill: Any) -> None:
    """A folder called SKILL.md is reported, hides no other skill, and leaves no file open."""
    skill(project / ".amplifier/skills", "good")
    folder = project / ".amplifier/skills/odd/SKILL.md"
    folder.mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    catalogue = scanned(project)
    assert list(catalogue.skills) == ["good"]
    assert catalogue.problems == [f"{folder}:1: is not a regular file"]
    assert not before or len(os.listdir("/proc/self/fd")) <= before


def test_a_file_in_place_of_a_folder_is_reported(project: Path) -> None:
    """A folder that is none does not stop the others."""
    (project / ".amplifier").mkdir()
    (project / ".amplifier/skills").write_text("", encoding="utf-8")
    assert scanned(project).problems == [f"{project / '.amplifier/skills'}: is not a folder"]


def test_there_is_an_end_to_the_search(project: Path, skill: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree with too many folders is searched in part, and that is said."""
    monkeypatch.setattr(catalogue_module, "MOST_FOLDERS", 10)
    for number in range(20):
        skill(project / ".amplifier/skills", f"s{number:02}")
    found = scanned(project)
    assert list(found.skills) == [f"s{number:02}" for number in range(9)]
    assert "more than 10 folders" in found.problems[0]


@pytest.mark.parametrize("limit", [100, 1000, 5000])
def test_a_huge_text_is_cut_at_a_line(project: Path, skill: Any, limit: int) -> None:
    """What is over the limit is left out, in whole lines, and that is known."""
    file = skill(project / ".amplifier/skills", "huge", "ligne é\n" * 100_000)
    found = scanned(project)
    text = found.text(found.skills["huge"], limit)
    assert text.is_cut
    assert text.total_bytes == file.stat().st_size
    assert len(text.content.encode()) < limit
    assert set(text.content.split("\n")) == {"ligne é"}


def test_one_endless_line_is_cut_between_characters(project: Path, skill: Any) -> None:
    """No character is torn apart."""
    skill(project / ".amplifier/skills", "huge", "é" * 100_000)
    found = scanned(project)
    for limit in range(100, 110):
        text = found.text(found.skills["huge"], limit)
        assert text.is_cut
        assert set(text.content) == {"é"}


def test_a_front_matter_over_the_limit_leaves_an_empty_text(project: Path, skill: Any) -> None:
    """A limit that is smaller than the front matter gives no text, and no error."""
    skill(project / ".amplifier/skills", "one", "Text.")
    found = scanned(project)
    text = found.text(found.skills["one"], 1)
    assert (text.content, text.is_cut) == ("", True)


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: f"---\n{text}\n---\n".encode()))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_skill_or_a_problem(content: bytes) -> None:
    """Whatever a file holds, it is read or refused with a line that it has."""
    line = length = 1
    try:
        length = parse_front_matter(content).length
    except FrontMatterError as error:
        line = error.line
    assert 1 <= line <= len(content.splitlines()) + 2
    assert 1 <= length <= max(len(content), 1)
