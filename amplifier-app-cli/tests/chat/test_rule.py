"""What `always` remembers: exactly what was shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_app_cli.chat.rule import Rule


def _details(tool: str, **tool_input: object) -> dict[str, object]:
    return {"tool_name": tool, "tool_input": tool_input, "tool_call_id": "c1"}


def test_file_rule_is_about_one_file(tmp_path: Path) -> None:
    """A rule for a file allows other content for it, by any spelling of its path, and no other file."""
    rule = Rule.for_call("filesystem.write", _details("write", path="a.txt", content="1"), tmp_path)
    assert str(rule) == "write may filesystem.write a.txt, whatever the content"
    assert rule.allows("filesystem.write", _details("write", path="./x/../a.txt", content="2"))
    assert not rule.allows("filesystem.write", _details("write", path="b.txt", content="1"))
    assert not rule.allows("filesystem.write", _details("edit", path="a.txt", content="1"))
    assert not rule.allows("filesystem.delete", _details("write", path="a.txt", content="1"))


def test_link_to_elsewhere_is_another_file(tmp_path: Path) -> None:
    """A file that has become a link to another one is not the one that was allowed."""
    (tmp_path / "a.txt").touch()
    rule = Rule.for_call("filesystem.write", _details("write", path="a.txt"), tmp_path)
    (tmp_path / "a.txt").unlink()
    (tmp_path / "a.txt").symlink_to("/etc/hosts")
    assert not rule.allows("filesystem.write", _details("write", path="a.txt"))


@pytest.mark.parametrize("other", ["make test && rm -rf /", "make  test", "make", "make test "])
def test_command_rule_is_about_its_letters(tmp_path: Path, other: str) -> None:
    """A rule for a command allows that command, letter by letter, and never a wider one."""
    rule = Rule.for_call("process.exec", _details("bash", command="make test", timeout=5), tmp_path)
    assert str(rule) == "bash may process.exec with exactly this input"
    assert rule.allows("process.exec", _details("bash", timeout=5, command="make test"))
    assert not rule.allows("process.exec", _details("bash", timeout=5, command=other))
    assert not rule.allows("process.exec", _details("bash", command="make test"))


def test_several_paths_are_an_exact_input(tmp_path: Path) -> None:
    """An input that names more than one place is allowed as a whole or not at all."""
    rule = Rule.for_call("filesystem.write", _details("copy", path="a", file="b"), tmp_path)
    assert rule.path is None
    assert not rule.allows("filesystem.write", _details("copy", path="a", file="c"))
