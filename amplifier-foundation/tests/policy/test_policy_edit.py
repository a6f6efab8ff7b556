"""Rules are added to files and removed from them, and everything else stays as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amplifier_foundation.documents import parse_document
from amplifier_foundation.policy.policy_file import PolicyFileError, append_rules, remove_rule, rule_entry
from amplifier_kit.guard.policy.rule_parser import find_mistake, parse_rules
from amplifier_kit.guard.policy.rules import Rule

_ENTRY = {"action": "process.exec", "command": "make test", "verdict": "allow"}
_FILE = """\
# my rules, for all to see

rules:  # read from above
  # never
  - action: process.exec
    command: "rm *"   # whatever follows
    verdict: deny

  - {action: tool.x, verdict: ask}  # in one line
# the end
"""


def _rules(path: Path) -> list[Any]:
    return list(parse_document(path, path.read_bytes()).data.get("rules") or [])


def test_comments_and_order_stay(tmp_path: Path) -> None:
    """Every line that was there is there, in its order; taking the new rule out gives the file back."""
    path = tmp_path / "policy.yaml"
    path.write_text(_FILE, encoding="utf-8")
    assert append_rules(path, [_ENTRY])
    assert _rules(path)[-1] == _ENTRY
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    assert all(line in lines for line in _FILE.splitlines())
    assert remove_rule(path, lambda entry: entry == _ENTRY)
    assert path.read_text(encoding="utf-8") == _FILE


def test_a_new_file_is_private(tmp_path: Path) -> None:
    """A file that did not exist is made with its folder, for its owner alone, and has just the rule."""
    path = tmp_path / "new" / "policy.yaml"
    assert append_rules(path, [_ENTRY])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert _rules(path) == [_ENTRY]
    assert [each.name for each in path.parent.iterdir() if each.suffix == ".tmp"] == []


def test_the_mode_of_a_file_stays(tmp_path: Path) -> None:
    """A file that others may read stays so."""
    path = tmp_path / "policy.yaml"
    path.write_text(_FILE, encoding="utf-8")
    path.chmod(0o664)
    append_rules(path, [_ENTRY])
    assert path.stat().st_mode & 0o777 == 0o664


def test_what_is_there_is_not_written_twice(tmp_path: Path) -> None:
    """A rule that the file has already changes nothing."""
    path = tmp_path / "policy.yaml"
    append_rules(path, [_ENTRY])
    before = path.stat().st_mtime_ns
    assert not append_rules(path, [_ENTRY])
    assert path.stat().st_mtime_ns == before
    assert not remove_rule(path, lambda entry: False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rules:\n",
        "rules: []\n",
        "rules: [{action: tool.x, verdict: ask}]\n",
        "# x\n",
        "rules:\n- verdict: deny\n",
        "a: 1\n",
    ],
)
def test_ways_to_write_rules(tmp_path: Path, text: str) -> None:
    """However the list is written, a rule can be added and removed."""
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    before = _rules(path)
    append_rules(path, [_ENTRY, {**_ENTRY, "command": "make it"}])
    assert _rules(path) == [*before, _ENTRY, {**_ENTRY, "command": "make it"}]
    remove_rule(path, lambda entry: entry == _ENTRY)
    assert _rules(path) == [*before, {**_ENTRY, "command": "make it"}]


def test_marks_and_line_ends_stay(tmp_path: Path) -> None:
    """A byte order mark and CRLF are kept."""
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + _FILE.replace("\n", "\r\n").encode())
    append_rules(path, [_ENTRY])
    content = path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf# my rules")
    assert content.count(b"\n") == content.count(b"\r\n")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """A policy file that is a link to one elsewhere is changed there."""
    (tmp_path / "there").mkdir()
    path = tmp_path / "policy.yaml"
    path.symlink_to(tmp_path / "there/mine.yaml")
    append_rules(path, [_ENTRY])
    assert path.is_symlink()
    assert _rules(tmp_path / "there/mine.yaml") == [_ENTRY]


@pytest.mark.parametrize("text", ["rules: [\n", "rules: x\n", "rules: &r [{verdict: ask}]\nmore: *r\n", "- x\n"])
def test_what_cannot_be_changed_stays(tmp_path: Path, text: str) -> None:
    """A broken file, or one whose layout cannot be kept, is refused with its name and left alone."""
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyFileError, match=r"policy\.yaml"):
        append_rules(path, [_ENTRY])
    assert path.read_text(encoding="utf-8") == text


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the place of the folder is a PolicyFileError, not an OSError."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(PolicyFileError, match="cannot be written"):
        append_rules(tmp_path / "file" / "policy.yaml", [_ENTRY])


_APPENDING = """
import sys
from pathlib import Path
from amplifier_foundation.policy.policy_file import append_rules

for index in range(5):
    entry = {"action": "process.exec", "command": f"make {sys.argv[2]} {index}", "verdict": "allow"}
    append_rules(Path(sys.argv[1]), [entry])
"""


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    """Processes that add rules at the same time all find them there."""
    path = tmp_path / "policy.yaml"
    workers = [subprocess.Popen([sys.executable, "-c", _APPENDING, path, str(number)]) for number in range(3)]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0]
    assert len(_rules(path)) == 15


_TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="*?[]\u2028\u2029\ufeff"), min_size=1, max_size=20
).filter(lambda text: text.strip() != "")

_COMMAND = st.text(
    st.characters(categories=("L", "N", "P", "S"), include_characters=" ", exclude_characters="*?[]"),
    min_size=1,
    max_size=20,
).filter(lambda text: text.strip() != "")


@given(command=_COMMAND, reason=_TEXT)
def test_every_rule_survives_the_way_through_a_file(
    tmp_path_factory: pytest.TempPathFactory, command: str, reason: str
) -> None:
    """A rule that is written and read says what it said."""
    rule = Rule("allow", action="process.exec", command=command, reason=reason)
    assume(find_mistake(rule) is None)  # what can match nothing is not read as a rule
    path = tmp_path_factory.mktemp("p") / "policy.yaml"
    path.write_text(_FILE, encoding="utf-8")
    append_rules(path, [rule_entry(rule)])
    rules, problems = parse_rules(_rules(path), lambda index, key: "")
    assert problems == []
    assert rules[-1] == rule
