"""`amplifier policy suggest` and `backtest`: rules and the past."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from amplifier_foundation.paths import Home
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.trust.store import TrustStore

Give = Callable[..., Result]
Asked = Callable[..., None]


def test_suggest(give: Give, asked: Asked) -> None:
    """Rules are proposed with how many questions they would have spared; what was denied speaks against one."""
    asked("make", "make", "make", "git push", "git push", "!git push", "once")
    result = give("suggest")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        'allow process.exec command "make"',
        "  would have saved 3 of 7 approval requests, such as: make",
    ]
    assert 'not proposed: `allow process.exec command "git push"`' in result.stderr
    record = json.loads(give("suggest", "--least", "1", "--format", "json").stdout)
    assert [(rule["command"], rule["spared"]) for rule in record["rules"]] == [("make", 3), ("once", 1)]
    assert (record["asked"], record["spared"], record["written"]) == (7, 4, [])


def test_suggest_writes_what_it_showed(give: Give, asked: Asked, home: Home, project: Path) -> None:
    """With --write the rules are in the file, hold from then on, and are not proposed again."""
    asked("make", "make")
    refused = give("suggest", "--write", "user")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert not (home.path / "policy.yaml").exists()
    record = json.loads(give("suggest", "--write", "user", "--yes", "--format", "json").stdout)
    (written,) = record["written"]
    assert f" by {pwd.getpwuid(os.getuid()).pw_name}" in (home.path / "policy.yaml").read_text(encoding="utf-8")
    assert Permissions.load(home, project).judge("process.exec", {"command": "make"}).verdict == "allow"
    assert written["id"] in give("list").stdout
    assert json.loads(give("suggest", "--format", "json").stdout)["rules"] == []


def test_suggest_for_the_project(give: Give, asked: Asked, home: Home, project: Path) -> None:
    """The project's own file takes them only when it is trusted, and it stays trusted."""
    asked("make", "make")
    untrusted = give("suggest", "--write", "local", "--yes", "--format", "json")
    assert untrusted.exit_code == 1
    assert json.loads(untrusted.stdout)["code"] == "policy_remember"
    TrustStore(home).trust(project)
    assert give("suggest", "--write", "local", "--yes").exit_code == 0
    assert TrustStore(home).state(project).trusted
    assert "make" in (project / ".amplifier/policy.local.yaml").read_text(encoding="utf-8")


def test_suggest_nothing(give: Give) -> None:
    """Without sessions there is nothing to propose, and that is said."""
    result = give("suggest")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing to propose" in result.stderr


def test_backtest(give: Give, asked: Asked, project: Path) -> None:
    """A proposed file is held against the past: counts of then and now, and what would be stricter or milder."""
    asked("make", "make", "rm x", "ls", "!git push")
    (project / "new.yaml").write_text(
        "rules: [{command: 'make *', verdict: allow}, {command: 'rm *', verdict: deny}]\n", encoding="utf-8"
    )
    text = give("backtest", "--rules", "new.yaml")
    assert text.exit_code == 0
    lines = text.stdout.splitlines()
    assert lines[0] == "5 actions of 1 session"
    assert lines[2].split() == ["asked", "2", "2", "1"]
    assert "stricter:" in lines
    assert any(line.startswith("  2x asked -> allow: process.exec make (") for line in lines)
    record = json.loads(give("backtest", "--rules", "new.yaml", "--format", "json").stdout)
    assert record["counts"]["asked"] == {"allow": 2, "ask": 2, "deny": 1}
    assert [each["what"] for each in record["stricter"]] == ["rm x"]
    assert record["stricter"][0]["now"]["where"].endswith("new.yaml:1")
    assert record["milder"][0]["times"] == 2


def test_backtest_of_what_holds(give: Give, asked: Asked, home: Home, tmp_path: Path) -> None:
    """Without a file it is the rules of now; with --all-projects all sessions count."""
    other = tmp_path / "other"
    other.mkdir()
    asked("make")
    asked("make", session_id="two", working_dir=other)
    (home.path / "policy.yaml").write_text("rules: [{command: 'make *', verdict: allow}]\n", encoding="utf-8")
    assert json.loads(give("backtest", "--format", "json").stdout)["counts"]["asked"]["allow"] == 1
    every = json.loads(give("backtest", "--all-projects", "--format", "json").stdout)
    assert (every["sessions"], every["counts"]["asked"]["allow"]) == (2, 2)


@pytest.mark.parametrize("arguments", [["backtest", "--rules", "nothing.yaml"], ["backtest", "--days", "0"]])
def test_wrong_uses(give: Give, arguments: list[str]) -> None:
    """A file that does not exist and an invalid time are refused."""
    assert give(*arguments).exit_code in (1, 2)


def test_a_bad_proposal_is_told(give: Give, asked: Asked, project: Path) -> None:
    """What is wrong with the proposed file is reported with its line."""
    asked("make")
    (project / "new.yaml").write_text("rules: [{comand: x, verdict: deny}]\n", encoding="utf-8")
    assert f"problem: {project / 'new.yaml'}:1" in give("backtest", "--rules", "new.yaml").stderr
