"""Rules of several people at once: deny is absolute, ask is a floor, the defaults come last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.guard.policy.rules import Rule

Load = Callable[..., Permissions]


def _exec(verdict: str, command: str = "make *") -> str:
    return f"rules: [{{action: process.exec, command: '{command}', verdict: {verdict}}}]\n"


@pytest.mark.parametrize("first", ["allow", "ask", "deny"])
@pytest.mark.parametrize("second", ["allow", "ask", "deny"])
def test_the_stricter_rule_wins(load: Load, first: str, second: str) -> None:
    """Whoever of the user, the trusted project and its local file is stricter is heard."""
    order = ["allow", "ask", "deny"]
    expected = max(first, second, key=order.index)
    for one, other in (("user", "project"), ("user", "local"), ("project", "local")):
        texts = {"user": "", "project": "", "local": ""} | {one: _exec(first), other: _exec(second)}
        permissions = load(is_trusted=True, **texts)
        assert permissions.judge("process.exec", {"command": "make"}).verdict == expected


def test_whose_rule_it_was(load: Load, files: dict[str, Path]) -> None:
    """A judgement has the rule, its scope, and its file and line in the reason."""
    judged = load(user=_exec("deny")).judge("process.exec", {"command": "ls; make all"})
    assert (judged.verdict, judged.scope, judged.what) == ("deny", "user", "make all")
    assert judged.reason.endswith(f"({files['user']}:1)")
    default = load(user="").judge("process.exec", {"command": "ls"})
    assert (default.scope, default.reason) == ("default", "running a command")
    assert load().judge("x.y", {}).rule is None


def test_trust_is_looked_up(home: Home, project: Path, files: dict[str, Path]) -> None:
    """Without being told, the record of trusted folders decides, as the files are now."""
    files["project"].write_text(_exec("allow"), encoding="utf-8")
    judge = ("process.exec", {"command": "make"})
    assert Permissions.load(home, project).judge(*judge).verdict == "ask"
    TrustStore(home).trust(project)
    assert Permissions.load(home, project).judge(*judge).verdict == "allow"
    files["project"].write_text(_exec("allow", "*"), encoding="utf-8")
    assert Permissions.load(home, project).judge(*judge).verdict == "ask"


def test_the_home_of_the_user_is_meant(
    load: Load, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `~` in a rule is the user's home directory, as it is in a path, and not the home of the program."""
    monkeypatch.setenv("HOME", str(tmp_path))
    permissions = load(user="rules: [{action: filesystem.read, path: '~/notes/**', verdict: allow}]\n")
    assert permissions.judge("filesystem.read", {"path": "~/notes/a"}).verdict == "allow"
    assert permissions.judge("filesystem.read", {"path": str(tmp_path / "notes/a")}).verdict == "allow"


def test_in_the_home_directory_the_users_file_is_not_the_projects(tmp_path: Path) -> None:
    """A session in the home directory reads policy.yaml once, as the user's."""
    home = Home(tmp_path / ".amplifier")
    home.path.mkdir()
    (home.path / "policy.yaml").write_text(_exec("allow"), encoding="utf-8")
    permissions = Permissions.load(home, tmp_path)
    assert [source.scope for source in permissions.sources] == ["user", "default"]
    assert permissions.problems == ()


def test_remember_and_forget(load: Load) -> None:
    """A remembered rule grants exactly what it says until it is forgotten."""
    permissions = load()
    rule = Rule("allow", action="process.exec", command="make test")
    permissions.remember(rule)
    permissions.remember(rule)
    assert permissions.remembered == (rule,)
    judged = permissions.judge("process.exec", {"command": "make test"})
    assert (judged.verdict, judged.scope) == ("allow", "remembered")
    for command in ("make", "make test all", "make test; rm x", "make test > x", "X=1 make test"):
        assert permissions.judge("process.exec", {"command": command}).verdict == "ask", command
    assert permissions.forget(rule)
    assert not permissions.forget(rule)
    assert permissions.judge("process.exec", {"command": "make test"}).verdict == "ask"


@pytest.mark.parametrize("verdict", ["ask", "deny"])
@pytest.mark.parametrize("scope", ["user", "project"])
def test_what_is_remembered_lifts_no_rule(load: Load, verdict: str, scope: str) -> None:
    """Somebody's question or denial outlives an "always", also that of an untrusted project, and none is offered."""
    permissions = load(**{scope: _exec(verdict)})
    assert permissions.suggest("process.exec", {"command": "make test"}) == ()
    permissions.remember(Rule("allow", action="process.exec", command="make test"))
    assert permissions.judge("process.exec", {"command": "make test"}).verdict == verdict


def test_suggested_rules_allow_what_was_asked_and_are_narrow(load: Load) -> None:
    """Each part gets its own rule, and with all of them the same action is not asked for again."""
    permissions = load()
    details = {"tool_name": "bash", "tool_input": {"command": "make test && ls src > out.txt"}}
    rules = permissions.suggest("tool.bash", details)
    assert [str(rule) for rule in rules] == [
        'allow process.exec command "make test"',
        'allow process.exec command "ls *"',
        'allow filesystem.write path "out.txt"',
    ]
    for rule in rules:
        assert permissions.judge("tool.bash", details).verdict == "ask"
        permissions.remember(rule)
    assert permissions.judge("tool.bash", details).verdict == "allow"
    assert permissions.suggest("tool.bash", details) == ()
    assert permissions.judge("tool.bash", {"tool_input": {"command": "make test; rm x"}}).verdict == "ask"


@pytest.mark.parametrize("command", ["eval $X", "make $(cat x)", "cat <<< x; $Y"])
def test_nothing_is_suggested_for_what_is_not_known(load: Load, command: str) -> None:
    """What is known only when it runs is asked for each time."""
    assert load().suggest("process.exec", {"command": command}) == ()


def test_the_policy_of_a_session(load: Load) -> None:
    """The kernel gets a verdict with its reason."""
    permissions = load()
    assert permissions.policy("process.exec", {"command": "ls"}) == ("ask", "running a command")
    assert permissions.policy("tool.x", {})[0] == "ask"
    assert permissions.policy("x.y", {})[0] == "deny"


def test_rules_of_a_session(home: Home, project: Path) -> None:
    """What is remembered in the folder of a session holds in it alone."""
    folder = home.sessions(project) / "one"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text(_exec("allow"), encoding="utf-8")
    assert Permissions.load(home, project, session=folder).judge("process.exec", {"command": "make"}).scope == "session"
    assert Permissions.load(home, project).judge("process.exec", {"command": "make"}).verdict == "ask"


def test_changed_files_are_noticed(load: Load, files: dict[str, Path]) -> None:
    """Rules are stale as soon as a policy file came, changed or went."""
    permissions = load()
    assert not permissions.is_stale
    files["project"].write_text(_exec("deny"), encoding="utf-8")
    assert bool(permissions.is_stale)
    permissions = load()
    assert not permissions.is_stale
    files["project"].unlink()
    assert bool(permissions.is_stale)
