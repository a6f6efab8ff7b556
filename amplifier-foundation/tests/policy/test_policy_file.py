"""Policy files: a bad entry is reported alone with its line, and nothing fails open."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.policy.policy_file import may_bundle_allow, read_policy_file, rules_of_bundle

Load = Callable[..., Permissions]

_RULES = """\
# what holds for me
rules:
  - action: process.exec
    command: "git status *"
    verdict: allow
  - action: process.exec
    comand: "rm *"
    verdict: deny
  - action: network.fetch
    host: example.com
    verdict: allow
"""


def test_a_bad_entry_is_reported_alone(load: Load, files: dict[str, Path]) -> None:
    """The problem has the file and the line of the wrong key, the other entries hold, and its action is asked for."""
    permissions = load(user=_RULES + "  - {action: process.exec, verdict: allow}\n")
    (problem,) = permissions.problems
    assert problem.where == f"{files['user']}:7"
    assert "comand" in problem.message
    assert permissions.judge("network.fetch", {"host": "example.com"}).verdict == "allow"
    assert permissions.judge("process.exec", {"command": "git status"}).verdict == "ask"
    assert permissions.judge("process.exec", {"command": "rm -rf /"}).verdict == "ask"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('{verdict: allow, command: "ls", command: "ls *"}', "the key 'command' is given twice"),
        ("{verdict: allow, command: 2020-13-45}", "month must be in 1..12"),
        ("{verdict: !!int allow}", "invalid literal"),
        ("{verdict: !!python/name:os.system x}", "could not determine a constructor"),
        ("{[verdict]: allow}", "cannot be a key"),
        ("&a {verdict: allow, match: [*a]}", "contains itself"),
        ("{<<: [*first, 5], verdict: allow}", "`<<` takes"),
        ("{<<: 5, verdict: allow}", "`<<` takes"),
    ],
)
def test_an_entry_that_yaml_cannot_read_leaves_the_others(
    load: Load, files: dict[str, Path], entry: str, said: str
) -> None:
    """What is denied beside it stays denied, whoever would say yes; only the entry is reported, with its line."""
    denied = '  - {command: "git push *", verdict: deny}\n'
    text = f'rules:\n  - &first {{command: "rm *", verdict: deny}}\n  - {entry}\n  - {{<<: *first}}\n{denied}'
    permissions = load(user=text)
    (problem,) = permissions.problems
    assert problem.where == f"{files['user']}:3"
    assert said in problem.message
    verdicts = {
        line: permissions.judge("process.exec", {"command": line}).verdict for line in ("rm x", "git push", "ls")
    }
    assert verdicts == {"rm x": "deny", "git push": "deny", "ls": "ask"}
    assert permissions.judge("filesystem.read", {"path": "a"}).verdict == "ask"


@pytest.mark.parametrize(
    "text",
    [
        "rules: [\n",
        "rules: deny\n",
        "- just a list\n",
        "rules:\n  - verdict: deny\n    verdict: allow\n",
        "\x00",
        "rule:\n  - {action: filesystem.read, verdict: deny}\n",
        "rules: [deny everything]\n",
        "rules: [{verdict: maybe}]\n",
        "rules: [{action: filesystem.read, path: [a], verdict: deny}]\n",
        "rules: [{action: filesystem.read, path: c, verdict: deny, match: [b]}]\n",
        "rules: [{action: , verdict: deny}]\n",
    ],
)
@pytest.mark.parametrize("scope", ["user", "project", "local"])
@pytest.mark.parametrize("is_trusted", [True, False])
def test_nothing_fails_open(load: Load, files: dict[str, Path], text: str, scope: str, is_trusted: bool) -> None:
    """Whatever cannot be read asks for what it may have restricted, and makes nothing milder."""
    permissions = load(is_trusted=is_trusted, **{scope: text})
    assert [problem for problem in permissions.problems if problem.where.startswith(str(files[scope]))]
    assert permissions.judge("filesystem.read", {"path": "a"}).verdict == "ask"
    assert permissions.judge("filesystem.read", {"path": "/etc/passwd"}).verdict == "deny"
    assert permissions.judge("tool.launch", {"tool_name": "launch"}).verdict == "ask"


@pytest.mark.parametrize(
    ("text", "line"), [("rules: [\n", ":2"), ("rules: []\nrules: []\n", ":2"), ("- just a list\n", None)]
)
def test_a_file_that_cannot_be_read_is_told_once(
    load: Load, files: dict[str, Path], text: str, line: str | None
) -> None:
    """The place has the file, and the line where one is known; what is wrong there does not say it again."""
    (problem,) = load(user=text).problems
    assert problem.where.startswith(str(files["user"]))
    assert line is None or problem.where == f"{files['user']}{line}"
    assert str(files["user"]) not in problem.message


@pytest.mark.parametrize("entry", ["{action: tool.x, verdict: allow, bogus: 1}", "{path: [a], verdict: allow}"])
def test_a_bad_rule_that_allows_is_left_out(load: Load, entry: str) -> None:
    """It allows nothing, and since it would have restricted nothing, nothing else is asked for it."""
    permissions = load(user=f"rules: [{entry}]\n")
    assert len(permissions.problems) == 1
    assert permissions.judge("tool.x", {"tool_name": "x"}).verdict == "ask"
    assert permissions.judge("filesystem.read", {"path": "a"}).verdict == "allow"


def test_an_unknown_key_that_holds_no_rules_is_only_reported(load: Load, files: dict[str, Path]) -> None:
    """A number or a text under another key cannot have been rules."""
    permissions = load(user="version: 1\nrules: []\n")
    assert [problem.where for problem in permissions.problems] == [f"{files['user']}:1"]
    assert permissions.judge("filesystem.read", {"path": "a"}).verdict == "allow"


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "rules:\n", "rules: []\n", "\ufeffrules: []\r\n"])
def test_empty_files_are_fine(load: Load, text: str) -> None:
    """A file without rules is no problem and no rule."""
    permissions = load(user=text, project=text)
    assert permissions.problems == ()
    assert permissions.judge("filesystem.read", {"path": "a"}).verdict == "allow"


def test_line_ends_and_marks_do_not_move_lines(files: dict[str, Path]) -> None:
    """A byte order mark and CRLF leave every line where it was."""
    files["user"].write_bytes(b"\xef\xbb\xbf" + _RULES.replace("\n", "\r\n").encode())
    source = read_policy_file(files["user"], "user")
    assert source is not None
    assert [rule.where.rpartition(":")[2] for rule in source.rules] == ["3", "9"]
    assert [problem.where.rpartition(":")[2] for problem in source.problems] == ["7"]


def test_places_that_are_no_files(home: Any, project: Path, files: dict[str, Path]) -> None:
    """A folder, a pipe and a link to nothing in a policy's place ask for everything; nothing waits for the pipe."""
    makers: list[Callable[[], None]] = [
        files["project"].mkdir,
        lambda: os.mkfifo(files["project"]),
        lambda: files["project"].symlink_to(project / "nowhere"),
    ]
    for make in makers:
        make()
        permissions = Permissions.load(home, project)
        assert permissions.judge("filesystem.read", {"path": "a"}).verdict == "ask"
        assert permissions.judge("tool.launch", {}).verdict == "ask"
        assert len(permissions.problems) == 1
        files["project"].rmdir() if files["project"].is_dir() else files["project"].unlink()


def test_a_file_in_the_place_of_the_folder(home: Any, tmp_path: Path) -> None:
    """A project whose .amplifier is a file has no policy."""
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / ".amplifier").write_text("x", encoding="utf-8")
    assert Permissions.load(home, folder).problems == ()


def test_files_that_nobody_has_looked_at(home: Any, project: Path, files: dict[str, Path]) -> None:
    """A file of many megabytes is not read, and asks for everything."""
    files["project"].write_bytes(b"#" * (5 << 20))
    permissions = Permissions.load(home, project)
    assert "larger" in permissions.problems[0].message
    assert permissions.judge("filesystem.read", {"path": "a"}).verdict == "ask"


def _plan(*rules: Any) -> dict[str, Any]:
    return {"hooks": [{"module": "hooks-other"}, {"module": "hooks-approval", "config": {"rules": list(rules)}}]}


def test_rules_of_a_bundle(home: Any, project: Path) -> None:
    """Rules in our format count, published entries as what they mean, and a bad one is named by its number."""
    plan = _plan(
        {"pattern": "pytest*", "action": "auto_approve"},
        {"pattern": "rm *", "action": "auto_deny", "reason": "no"},
        {"action": "network.fetch", "host": "example.com", "verdict": "allow"},
        {"action": "tool.y", "verdict": "deny", "bogus": 1},
    )
    permissions = Permissions.load(home, project, plan=plan, bundle="bundle mine")
    assert permissions.judge("network.fetch", {"host": "example.com"}).verdict == "allow"
    assert permissions.judge("tool.bash", {"tool_name": "bash", "tool_input": {"command": "rm x"}}).verdict == "deny"
    (problem,) = permissions.problems
    assert problem.where == "bundle mine: hooks-approval, rule 4"


def test_published_rules_allow_what_they_say(home: Any, project: Path) -> None:
    """An entry with a pattern that approves spares the question for bash, and for no other tool."""
    permissions = Permissions.load(home, project, plan=_plan({"pattern": "pytest*", "action": "auto_approve"}))
    details = {"tool_name": "bash", "tool_input": {"command": "pytest -q"}}
    assert permissions.judge("tool.bash", details).verdict == "allow"
    assert permissions.judge("process.exec", details).verdict == "allow"
    assert permissions.judge("tool.run", {**details, "tool_name": "run"}).verdict == "ask"
    assert permissions.judge("tool.bash", {"tool_input": {"command": "pytest; rm x"}}).verdict == "ask"


@pytest.mark.parametrize("plan", [{}, {"hooks": None}, {"hooks": "x"}, {"hooks": ["x", {"module": "hooks-approval"}]}])
def test_plans_without_rules(plan: dict[str, Any]) -> None:
    """A plan that has no such rules has no source."""
    assert rules_of_bundle(plan, "bundle") is None


def test_published_rules_of_a_bundle_hold_as_they_were_written(home: Any, project: Path) -> None:
    """A pattern that denies is held against the whole line, and against files at any depth."""
    rules = [
        {"pattern": "curl*|*sh*", "action": "auto_deny"},
        {"pattern": "*.env", "tool": "read_file", "action": "auto_deny"},
        {"pattern": "*", "action": "auto_approve"},
    ]
    plan = {"hooks": [{"module": "hooks-approval", "config": {"rules": rules}}]}
    permissions = Permissions.load(home, project, plan=plan)
    for command, verdict in {"curl x | sh": "deny", "curl x|sh -s": "deny", "curl x": "allow"}.items():
        assert permissions.judge("process.exec", {"tool_input": {"command": command}}).verdict == verdict
    for path, verdict in {"a.env": "deny", "deep/down/a.env": "deny", "a.md": "allow"}.items():
        details = {"tool_name": "read_file", "tool_input": {"file_path": path}}
        assert permissions.judge("filesystem.read", details).verdict == verdict


def test_bundle_rules_that_are_no_list(home: Any, project: Path) -> None:
    """They ask for everything: what they would have denied is unknown."""
    plan = {"hooks": [{"module": "hooks-approval", "config": {"rules": "deny"}}]}
    permissions = Permissions.load(home, project, plan=plan)
    assert permissions.judge("filesystem.read", {"path": "a"}).verdict == "ask"


def test_who_wrote_the_bundles_rules(tmp_path: Path) -> None:
    """A plan's rules may allow unless an untrusted project's file names hooks-approval, or nobody knows its files."""
    from amplifier_foundation.bundles.bundle import Layer
    from amplifier_foundation.documents import parse_document

    def layer(owner: Any, named_by: Any, text: str) -> Layer:
        document = parse_document(tmp_path / "x.yaml", text.encode())
        return Layer(document, owner, named_by, "x", "x")

    ours = "hooks: [{module: hooks-approval, config: {rules: []}}]\n"
    assert may_bundle_allow([layer("user", "user", ours), layer("project", "project", "a: b\n")], is_trusted=False)
    assert not may_bundle_allow([layer("project", "user", ours)], is_trusted=False)
    assert not may_bundle_allow([layer("fetched", "project", ours)], is_trusted=False)
    assert not may_bundle_allow([], is_trusted=False)
    override = "overrides: {hooks-approval: {config: {rules: []}}}\n"
    assert not may_bundle_allow([layer("project", "project", override)], is_trusted=False)
    assert may_bundle_allow([layer("project", "project", override)], is_trusted=True)
