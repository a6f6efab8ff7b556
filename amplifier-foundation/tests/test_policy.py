"""The rule an app starts with."""

from pathlib import Path

import pytest

from amplifier_foundation.policy import project_policy


@pytest.mark.parametrize(
    ("action", "details", "verdict"),
    [
        ("filesystem.read", {"tool_input": {"file_path": "README.md"}}, "allow"),
        ("filesystem.read", {"tool_input": {"path": "src/deep/er"}}, "allow"),
        ("filesystem.read", {"tool_input": {}}, "allow"),
        ("filesystem.read", {"tool_input": {"file_path": "../outside.txt"}}, "ask"),
        ("filesystem.read", {"tool_input": {"file_path": "/etc/passwd"}}, "ask"),
        ("filesystem.read", {"tool_input": {"file_path": "~/.ssh/id_rsa"}}, "ask"),
        ("filesystem.read", {"tool_input": {"paths": ["README.md", "../outside.txt"]}}, "ask"),
        ("filesystem.read", {"tool_input": {"paths": ["README.md", "src"]}}, "allow"),
        ("filesystem.read", {"tool_input": {"path": "nul\0l"}}, "ask"),
        ("filesystem.read", {"tool_input": {"path": {"odd": 1}}}, "ask"),
        ("filesystem.read", {"tool_input": {"path": None}}, "allow"),
        ("filesystem.read", {"tool_name": "glob", "tool_input": {"pattern": "/etc/*"}}, "ask"),
        ("filesystem.read", {"tool_name": "glob", "tool_input": {"pattern": "../**/*.key"}}, "ask"),
        ("filesystem.read", {"tool_name": "glob", "tool_input": {"pattern": "src/**/*.py"}}, "allow"),
        ("filesystem.read", {"tool_name": "grep", "tool_input": {"pattern": "/api/v1"}}, "allow"),
        ("filesystem.write", {"tool_input": {"file_path": "README.md"}}, "ask"),
        ("process.exec", {}, "ask"),
        ("tool.anything", {}, "ask"),
    ],
)
def test_reads_in_the_project_are_free_and_the_rest_is_asked(
    tmp_path: Path, action: str, details: dict[str, object], verdict: str
) -> None:
    """Only a read that stays inside the project is allowed unasked."""
    assert project_policy(tmp_path)(action, details)[0] == verdict


def test_a_link_out_of_the_project_is_outside(tmp_path: Path) -> None:
    """What a link leads to counts, not where the link lies."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret.txt").write_text("x")
    (project / "innocent.txt").symlink_to(tmp_path / "secret.txt")
    details = {"tool_input": {"file_path": "innocent.txt"}}
    assert project_policy(project)("filesystem.read", details)[0] == "ask"
