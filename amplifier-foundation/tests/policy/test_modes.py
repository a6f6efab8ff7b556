"""Permission modes: what each does without asking, and that none lifts a rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.policy.modes import (
    MODES,
    Mode,
    PermissionModeError,
    RunPermissions,
    check_place,
    mode_of_settings,
    parse_mode,
)
from amplifier_foundation.policy.rule_text import parse_rule
from amplifier_foundation.policy.sandboxed import SandboxedTools
from amplifier_foundation.sessions.permissions import SessionPermissions
from amplifier_foundation.settings.settings import Settings

In = Callable[..., SessionPermissions]


def _write(path: str) -> tuple[str, dict[str, Any]]:
    return "filesystem.write", {"tool_name": "write_file", "tool_input": {"file_path": path}}


def _bash(command: str) -> tuple[str, dict[str, Any]]:
    return "process.exec", {"tool_name": "bash", "tool_input": {"command": command}}


@pytest.fixture
def in_mode(home: Home, project: Path) -> In:
    """Return a function that returns the permissions of a session in a mode."""

    def made(mode: Mode, *rules: str, **more: Any) -> SessionPermissions:
        texts = [text.split(" ", 1) for text in rules]
        run = RunPermissions(mode, {}, tuple(parse_rule(text, verdict) for verdict, text in texts), **more)  # type: ignore[arg-type]
        prepared = Prepared.from_plan({}, home.path, project)
        return SessionPermissions.of(prepared, home.sessions(project) / "one", run=run)

    return made


def _verdict(permissions: SessionPermissions, call: tuple[str, dict[str, Any]], *, is_confined: bool = False) -> str:
    if permissions.denial_by_mode(*call) is not None:
        return "deny"
    return permissions.judge(*call, is_confined=is_confined).verdict


@pytest.mark.parametrize(
    ("call", "verdicts"),
    [
        (_write("src/a.py"), ("ask", "allow", "allow", "deny")),
        (_write("../outside"), ("deny", "deny", "deny", "deny")),
        (_write("/etc/passwd"), ("deny", "deny", "deny", "deny")),
        (_write(".amplifier/policy.yaml"), ("ask", "ask", "ask", "deny")),
        (_write(".amplifier/settings.yaml"), ("ask", "ask", "ask", "deny")),
        (_write(".git/hooks/pre-commit"), ("ask", "ask", "ask", "deny")),
        (_write(".mcp.json"), ("ask", "ask", "ask", "deny")),
        (_write(".vscode/tasks.json"), ("ask", "ask", "ask", "deny")),
        (_write("packages/app/.envrc"), ("ask", "ask", "ask", "deny")),
        (_bash("echo x > .husky/pre-commit"), ("ask", "ask", "ask", "deny")),
        (_write(".git/rebase-merge/git-rebase-todo"), ("ask", "ask", "ask", "deny")),
        (_write(".github/workflows/test.yml"), ("ask", "ask", "ask", "deny")),
        (_write(".pre-commit-config.yaml"), ("ask", "ask", "ask", "deny")),
        (_write("src/.exrc"), ("ask", "ask", "ask", "deny")),
        (_write("packages/app/.mcp.json"), ("ask", "ask", "ask", "deny")),
        (_write("packages/app/.claude/settings.json"), ("ask", "ask", "ask", "deny")),
        (_write("packages/app/.amplifier/policy.yaml"), ("ask", "ask", "ask", "deny")),
        (_bash("cp notes .envrc"), ("ask", "ask", "ask", "deny")),
        (_bash("tee .vscode/tasks.json"), ("ask", "ask", "ask", "deny")),
        (_bash("make test"), ("ask", "ask", "allow", "deny")),
        (_bash("echo x > .git/config"), ("ask", "ask", "ask", "deny")),
        (_bash("tee .amplifier/policy.yaml"), ("ask", "ask", "ask", "deny")),
        (_bash("ls"), ("ask", "ask", "allow", "ask")),
        (("filesystem.read", {"path": "a"}), ("allow", "allow", "allow", "allow")),
        (("filesystem.read", {"path": "/etc/passwd"}), ("deny", "deny", "deny", "deny")),
        (("session.spawn", {"tool_name": "delegate"}), ("ask", "ask", "allow", "ask")),
        (("network.fetch", {"tool_input": {"url": "https://example.com/"}}), ("ask", "ask", "ask", "ask")),
        (("mcp.call", {"tool_name": "mcp_files_write"}), ("ask", "ask", "ask", "deny")),
        (("tool.count_words", {"tool_name": "count_words"}), ("ask", "ask", "ask", "deny")),
        (("tool.todo", {"tool_name": "todo"}), ("allow", "allow", "allow", "allow")),
    ],
)
def test_what_each_mode_does(in_mode: In, call: tuple[str, dict[str, Any]], verdicts: tuple[str, ...]) -> None:
    """Verdicts in the modes ask, accept-edits, auto in a sandbox, and read-only."""
    modes: tuple[Mode, ...] = ("ask", "accept-edits", "auto", "read-only")
    assert tuple(_verdict(in_mode(mode), call, is_confined=True) for mode in modes) == verdicts


def test_auto_allows_no_command_outside_of_a_sandbox(in_mode: In) -> None:
    """A tool that does not run its commands in a sandbox that works is asked about."""
    assert _verdict(in_mode("auto"), _bash("make test"), is_confined=False) == "ask"


@pytest.mark.parametrize("mode", ["accept-edits", "auto"])
@pytest.mark.parametrize("verdict", ["deny", "ask"])
@pytest.mark.parametrize("scope", ["user", "project", "local"])
def test_no_mode_lifts_a_rule(in_mode: In, files: dict[str, Path], mode: Mode, verdict: str, scope: str) -> None:
    """What a rule denies stays denied and what one asks for stays asked, also in a line that may turn out to be it."""
    files[scope].write_text(
        f'rules:\n  - {{path: "secret/**", verdict: {verdict}}}\n  - {{command: "git push *", verdict: {verdict}}}\n',
        encoding="utf-8",
    )
    permissions = in_mode(mode)
    assert _verdict(permissions, _write("secret/key")) == verdict
    assert _verdict(permissions, _bash("make; git push --force"), is_confined=True) == verdict
    assert _verdict(permissions, _bash("$TOOL push"), is_confined=True) == "ask"
    assert _verdict(permissions, _write("src/a")) == "allow"


def test_links_are_followed_before_a_mode_allows(in_mode: In, project: Path, tmp_path: Path) -> None:
    """A link that leads out of the project, or to a control file, is judged by where it ends."""
    (tmp_path / "outside").mkdir()
    (project / "way").symlink_to(tmp_path / "outside")
    (project / "notes").symlink_to(project / ".amplifier/policy.yaml")
    assert _verdict(in_mode("accept-edits"), _write("way/a")) == "deny"
    assert _verdict(in_mode("accept-edits"), _write("notes")) == "ask"
    assert _verdict(in_mode("auto"), _bash("echo x > notes"), is_confined=True) == "ask"


def test_a_rule_for_the_run_is_a_rule(in_mode: In, project: Path) -> None:
    """Rules of a run allow and deny as those in files do; they lift no other rule and no guard."""
    permissions = in_mode("ask", "allow command git status *", "deny path src/secret", "allow filesystem.write")
    assert _verdict(permissions, _bash("git status")) == "allow"
    assert _verdict(permissions, _bash("git status; make")) == "ask"
    assert _verdict(permissions, _write("src/secret")) == "deny"
    assert _verdict(permissions, _write(".amplifier/policy.yaml")) == "ask"
    hidden = permissions.current.hidden("grep")
    assert hidden is not None
    assert hidden(str(project / "src/secret"))


def test_read_only_denies_what_rules_allow(in_mode: In, files: dict[str, Path]) -> None:
    """A rule that allows a command does not prove that it only reads."""
    files["user"].write_text('rules: [{command: "make *", verdict: allow}]\n', encoding="utf-8")
    reason = in_mode("read-only").denial_by_mode(*_bash("make test"))
    assert reason == "read-only mode: `make` is not known to only read"


def test_a_changed_mode_holds_from_the_next_decision(in_mode: In) -> None:
    """The object is shared: whoever holds it sees the change, in both directions."""
    permissions = in_mode("accept-edits")
    assert _verdict(permissions, _write("a")) == "allow"
    permissions.run.mode = "read-only"
    assert _verdict(permissions, _write("a")) == "deny"
    permissions.run.mode = "ask"
    assert _verdict(permissions, _write("a")) == "ask"


def test_added_folders_are_like_the_project(in_mode: In, tmp_path: Path) -> None:
    """Their files are read, asked about when written, and written in a mode that edits; their neighbours are not."""
    added = tmp_path / "library"
    added.mkdir()
    for mode, verdict in (("ask", "ask"), ("accept-edits", "allow")):
        permissions = in_mode(mode, folders=(added,))
        assert _verdict(permissions, ("filesystem.read", {"path": str(added / "a")})) == "allow"
        assert _verdict(permissions, _write(str(added / "a"))) == verdict
        assert _verdict(permissions, _write(str(added / ".git/hooks/x"))) == "ask"
        for name in (".vscode/tasks.json", ".mcp.json", ".claude/settings.json", ".amplifier/policy.yaml", "bundle.md"):
            assert _verdict(permissions, _write(str(added / name))) == "ask"
        assert _verdict(permissions, _write(f"{added}-2/a")) == "deny"


@pytest.mark.parametrize("mode", ["accept-edits", "auto"])
def test_a_folder_with_the_home_in_it_is_no_project(
    mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, any file may be one that runs at login: such modes are refused, with what to do."""
    monkeypatch.setenv("HOME", str(tmp_path / "people" / "ada"))
    for folder in (tmp_path / "people" / "ada", tmp_path / "people", Path("/")):
        with pytest.raises(PermissionModeError, match=r"contains your home folder.*or use the mode ask"):
            check_place(mode, folder)
    check_place(mode, tmp_path / "people" / "ada" / "project")
    check_place("read-only", tmp_path / "people")


@pytest.mark.parametrize("place", [".ssh", ".config/fish/functions", ".config", ".local/bin", "bin"])
def test_a_folder_that_decides_what_runs_is_no_project(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    """Keys, and what shells read at a start, are not edited unasked, whatever folder the settings' mode meets."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / place
    folder.mkdir(parents=True)
    with pytest.raises(PermissionModeError, match="needs a project"):
        check_place("accept-edits", folder)
    with pytest.raises(PermissionModeError, match="needs a project"):
        check_place("auto", Path("/etc"))
    run = RunPermissions("accept-edits")
    permissions = SessionPermissions.of(Prepared.from_plan({}, home.path, folder), home.sessions(folder) / "1", run=run)
    assert _verdict(permissions, _write("config")) == "ask"


def test_what_the_user_allowed_is_not_asked_for_in_a_mode(in_mode: In, files: dict[str, Path]) -> None:
    """The mode leaves what others run to the rules: one of the user's allows it in a looser mode as well."""
    files["user"].write_text(
        'rules: [{path: "/**/.github/workflows/ci.yml", action: filesystem.write, verdict: allow}]\n', encoding="utf-8"
    )
    for mode in ("ask", "accept-edits", "auto"):
        permissions = in_mode(mode)
        assert _verdict(permissions, _write(".github/workflows/ci.yml")) == "allow"
        assert _verdict(permissions, _write(".github/workflows/release.yml")) == "ask"
    permissions = in_mode("accept-edits")
    judged = permissions.judge(*_write(".github/workflows/release.yml"))
    assert judged.reason == "editors, shells, git or a server run what lies here by themselves"
    [rule] = permissions.suggest(*_write(".github/workflows/release.yml"))
    assert rule.path == ".github/workflows/release.yml"


def test_a_mode_asks_for_hooks_and_for_files_of_the_login(
    in_mode: In, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that git is told to take hooks from, and dotfiles that the home folder has links to, are asked for."""
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / ".zshrc").symlink_to(project / "dotfiles" / "zshrc")
    for name in ("objects", "refs"):
        (project / ".git" / name).mkdir(parents=True, exist_ok=True)
    (project / ".git/config").write_text('[core]\n\thooksPath = "tools/hooks" ; ours\n', encoding="utf-8")
    permissions = in_mode("accept-edits")
    assert _verdict(permissions, _write("tools/hooks/pre-commit")) == "ask"
    assert _verdict(permissions, _write("dotfiles/zshrc")) == "ask"
    assert _verdict(permissions, _write("tools/lint.py")) == "allow"


@pytest.mark.parametrize(
    ("user", "project_says", "local", "mode"),
    [
        (None, None, None, "ask"),
        ("accept-edits", None, None, "accept-edits"),
        ("auto", "read-only", None, "read-only"),
        ("accept-edits", "ask", None, "ask"),
        (None, "auto", None, "ask"),
        (None, None, "accept-edits", "ask"),
        ("read-only", "auto", "auto", "read-only"),
        ("accept-edits", "auto", None, "accept-edits"),
    ],
)
@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_project_can_only_make_the_mode_stricter(
    home: Home, project: Path, user: Any, project_says: Any, local: Any, mode: str, is_trusted: bool, request: Any
) -> None:
    """The user's settings choose the mode; those of a project, trusted or not, never a looser one."""
    if is_trusted:
        request.getfixturevalue("trusted")
    for path, text in (
        (home.settings, user),
        (project / ".amplifier/settings.yaml", project_says),
        (project / ".amplifier/settings.local.yaml", local),
    ):
        if text is not None:
            path.write_text(f"permissions: {{mode: {text}}}\n", encoding="utf-8")
    assert mode_of_settings(Settings.load(home, project)).mode == mode


def test_an_unknown_mode_is_an_error(home: Home, project: Path) -> None:
    """It is named with the file and line, or the place, that it comes from."""
    home.settings.write_text("permissions:\n  mode: accept-edit\n", encoding="utf-8")
    with pytest.raises(PermissionModeError, match=r"settings.yaml:2: unknown .*did you mean 'accept-edits'"):
        mode_of_settings(Settings.load(home, project))
    with pytest.raises(PermissionModeError, match=r"metadata\.json"):
        RunPermissions.starting(None, {}, {"permission_mode": "anything"}, Settings())
    assert [parse_mode(mode.name) for mode in MODES] == ["ask", "accept-edits", "auto", "read-only"]


def test_a_resumed_session_keeps_its_mode(home: Home, project: Path) -> None:
    """Settings that changed since do not; a mode that is chosen for the run does."""
    home.settings.write_text("permissions: {mode: auto}\n", encoding="utf-8")
    settings, saved = Settings.load(home, project), {"permission_mode": "read-only"}
    assert RunPermissions.starting(None, {}, saved, settings).mode == "read-only"
    assert RunPermissions.starting("ask", {}, saved, settings).mode == "ask"
    assert RunPermissions.starting(None, {}, None, settings).mode == "auto"


class _Tool:
    def __init__(self, status: Any) -> None:
        self._status = status

    async def sandbox_status(self) -> Any:
        if isinstance(self._status, Exception):
            raise self._status
        return self._status


class _Coordinator:
    def __init__(self, **tools: Any) -> None:
        self.tools = tools

    def get(self, name: str) -> Any:
        return self.tools


class _Status:
    def __init__(self, is_active: Any) -> None:
        self.is_active = is_active


async def test_only_a_tool_that_says_so_is_in_a_sandbox() -> None:
    """One that fails, answers nonsense, does not say, or took the name of one that did counts as one without."""
    tools = SandboxedTools()
    coordinator = _Coordinator(
        good=_Tool(_Status(True)),
        off=_Tool(_Status(False)),
        odd=_Tool(_Status("yes")),
        none=_Tool(None),
        broken=_Tool(OSError()),
        silent=object(),
    )
    for name in (*coordinator.tools, "unknown", 7, None):
        assert not tools.includes({"tool_name": name})
        await tools.learn(coordinator, {"tool_name": name})
    assert [name for name in coordinator.tools if tools.includes({"tool_name": name})] == ["good"]
    coordinator.tools["good"] = object()
    assert not tools.includes({"tool_name": "good"})
