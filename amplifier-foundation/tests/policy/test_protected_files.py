"""Files that decide what sessions may do are not written unasked, whatever rules allow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.policy.explain import explain
from amplifier_foundation.policy.permissions import Permissions

_EVERYTHING = 'rules: [{verdict: allow}, {action: filesystem.write, path: "/**", verdict: allow}]\n'
_DECIDING = [
    ".amplifier/policy.yaml",
    ".amplifier/policy.local.yaml",
    ".amplifier/settings.yaml",
    ".amplifier/settings.local.yaml",
    ".amplifier/mcp.json",
    ".amplifier/hooks/pre.yaml",
    ".mcp.json",
    ".claude/settings.json",
    ".claude/hooks/pre.sh",
    "./src/../.amplifier/policy.yaml",
    ".Amplifier/POLICY.yaml",
    ".amplifier",
    ".amplifier/modules/tool-x/amplifier_module_tool_x/__init__.py",
    ".amplifier/bundles/dev/bundle.md",
    ".amplifier/agents/explorer.md",
    ".amplifier/commands/ship.md",
    ".amplifier/skills/mine/SKILL.md",
    ".claude",
    ".claude/commands/ship.md",
    ".claude/agents/explorer.md",
    ".claude/skills/mine/SKILL.md",
    ".agents/skills/mine/SKILL.md",
    "bundle.md",
    "bundle.yaml",
    "bundle.yml",
    ".gitattributes",
    "deep/er/.gitattributes",
    ".git",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/hooks/pre-commit",
    ".git/info/attributes",
    ".git/objects/info/alternates",
    ".git/modules/sub/config",
    ".git/modules/deep/er/hooks/post-checkout",
    ".git/modules/a/modules/b/commondir",
    ".git/worktrees/tree/config.worktree",
    ".git/worktrees/tree/commondir",
    "vendor/lib/.git/config",
    "vendor/lib/.git/hooks/post-merge",
    "vendor/lib/.git",
    ".GIT/Config",
    ".git./config",
    ".git/config. ",
    ".git//config/",
    "src/../.git/./hooks/pre-push",
    ".git\u200c/config",
]
_OF_HOME = [
    "policy.yaml",
    "trust.json",
    "settings.yaml",
    "keys.env",
    "registry.json",
    "mcp.json",
    "bundles/mine/bundle.yaml",
    "agents/helper.md",
    "commands/ship.md",
    "skills/mine/SKILL.md",
    "cache/somebody/module.py",
    "projects/slug/sessions/other/waiting-calls.json",
]

Load = Callable[..., Permissions]


def _write(path: str | Path, tool: str = "write_file") -> tuple[str, dict[str, Any]]:
    return "filesystem.write", {"tool_name": tool, "tool_input": {"file_path": str(path)}}


@pytest.mark.parametrize("path", _DECIDING)
def test_writing_what_decides_in_a_project_is_asked_for(load: Load, path: str) -> None:
    """Neither a rule that allows everything nor one about paths spares the question, and no answer is remembered."""
    permissions = load(user=_EVERYTHING)
    assert permissions.judge(*_write(path)).verdict == "ask"
    assert permissions.suggest(*_write(path)) == ()
    assert permissions.judge("filesystem.read", {"path": path}).verdict == "allow"


@pytest.mark.parametrize("path", _OF_HOME)
def test_writing_what_decides_in_the_home_is_asked_for(load: Load, home: Home, path: str) -> None:
    """Nothing in the home has to be trusted before it counts."""
    assert load(user=_EVERYTHING).judge(*_write(home.path / path)).verdict == "ask"


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "src/policy.yaml",
        "src/bundle.yaml",
        "config",
        "hooks/pre-commit",
        ".github/workflows/test.yaml",
        ".gitignore",
        ".git/HEAD",
        ".git/index",
        ".git/refs/heads/config",
        ".git/COMMIT_EDITMSG",
        ".git/info/exclude",
        ".git/logs/refs/heads/hooks/one",
        "AGENTS.md",
    ],
)
def test_other_files_are_written_as_rules_say(load: Load, path: str) -> None:
    """What decides nothing by itself is not asked for."""
    assert load(user=_EVERYTHING).judge(*_write(path)).verdict == "allow"


def test_the_question_says_what_is_at_stake(load: Load) -> None:
    """Whoever is asked reads that it is the rules that would change, also where a rule asks for another reason."""
    asking = 'rules: [{action: filesystem.write, path: "**", verdict: ask, reason: be careful}]\n'
    for permissions in (load(), load(user=asking)):
        judged = permissions.judge(*_write(".amplifier/policy.yaml"))
        assert (judged.verdict, "where the rules are kept" in judged.reason) == ("ask", True)
        explained = explain(permissions, *_write(".amplifier/policy.yaml"))
        assert "it is asked for each time" in " ".join(explained.advice)


def test_what_is_denied_stays_denied(load: Load) -> None:
    """A question is no way around a rule that denies."""
    permissions = load(project='rules: [{path: ".amplifier/**", verdict: deny}]\n')
    assert permissions.judge(*_write(".amplifier/policy.yaml")).verdict == "deny"
    assert load().judge(*_write("/etc/passwd")).verdict == "deny"


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("tool.write_file", {"file_path": ".amplifier/policy.yaml"}),
        ("tool.anything", {"target_file": ".amplifier/policy.yaml"}),
        ("mcp.call", {"path": ".amplifier/policy.yaml"}),
        ("network.fetch", {"url": "https://example.com", "save_to_file": ".amplifier/policy.yaml"}),
        ("filesystem.write", {"patch": "*** Delete File: .amplifier/policy.yaml"}),
        ("filesystem.write", {"patch": "*** Update File: a\n*** Move to: .amplifier/policy.yaml"}),
        ("process.exec", {"command": "echo 'rules: []' > .amplifier/policy.yaml"}),
        ("process.exec", {"command": "true; { echo 'rules: []'; } >> ./.amplifier/policy.local.yaml"}),
        ("filesystem.write", {"patch": "*** Add File: .git/hooks/pre-commit\n+x"}),
        ("filesystem.write", {"patch": "*** Update File: .git/config\n*** Move to: elsewhere"}),
        ("network.fetch", {"url": "https://example.com", "save_to_file": ".git/hooks/pre-commit"}),
        ("process.exec", {"command": "echo x > .git/config"}),
        ("process.exec", {"command": "cd .git && echo x > config"}),
        ("process.exec", {"command": "printf x | tee -a .git/config"}),
        ("process.exec", {"command": "cp evil .git/hooks/pre-commit"}),
        ("process.exec", {"command": "cd .git; cp ../evil hooks"}),
        ("process.exec", {"command": "install -m 755 -t .git/hooks evil"}),
        ("process.exec", {"command": "cp --target-directory=.git/hooks evil"}),
        ("process.exec", {"command": "dd if=evil of=.git/config"}),
        ("process.exec", {"command": "sed -i s/a/b/ .git/config"}),
        ("process.exec", {"command": "mv .git old"}),
        ("process.exec", {"command": "rm -rf .amplifier/modules"}),
        ("process.exec", {"command": "ln -sf /tmp/evil .claude/settings.json"}),
        ("process.exec", {"command": "timeout 5 cp evil .git/commondir"}),
        ("mcp.call", {"destination_path": ".git/config"}),
        ("mcp.call", {"uri": "file://PROJECT/.git/hooks/pre-commit"}),
        ("mcp.call", {"edits": [{"where": {"name": "./.git/config"}, "text": "x"}]}),
        ("tool.anything", {"to": "bundle.md"}),
        *(
            ("process.exec", {"command": command})
            for command in (
                "git mv a.txt .gitattributes",
                "git mv a.txt deep/.gitattributes",
                "git --no-pager mv a.txt .mcp.json",
                "git rm -f .gitattributes",
                "git bundle create .git/config HEAD",
                "git interpret-trailers --in-place --trailer 'x: y' .git/config",
                "git credential-store --file=.git/hooks/pre-commit store",
                "git clone https://x.example/y .amplifier/modules/x",
                "git clone --bare https://x.example/y .git/modules/x",
                "git worktree add .amplifier/modules/x",
                "git submodule add https://x.example/y .claude/skills/x",
                "git init .amplifier/bundles/x",
                "git archive -o .git/hooks/x HEAD",
                "git archive --output=.mcp.json HEAD",
                "git format-patch -o .git/hooks HEAD~1",
                "git format-patch --output-directory .git/hooks HEAD~1",
                "git diff --output=.git/config",
                "git diff --output .git/config",
                "git log --outp=bundle.md",
                "git merge-file .mcp.json a b",
                "git fast-export --export-marks=.git/config --all",
                "cd .git && git bundle create config HEAD",
            )
        ),
        ("mcp.call", {"contents": {".git/hooks/pre-commit": "x"}}),
        ("mcp.call", {"contents": [{"x": {"PROJECT/bundle.md": 1}}]}),
        ("mcp.call", {"name": ".git/config\n"}),
        ("mcp.call", {"name": " \t.git/config \r\n"}),
        ("mcp.call", {"name": " file://PROJECT/.git/config "}),
        ("mcp.call", {"name": "FILE://localhost/PROJECT/.git/config"}),
        ("mcp.call", {"name": "file:PROJECT/.git/config"}),
        ("mcp.call", {"name": ".git/config" + " " * 5_000}),
    ],
)
def test_every_way_to_write_counts(load: Load, project: Path, action: str, given: dict[str, Any]) -> None:
    """Tools of other names, patches, downloads, redirects and programs that write are asked for alike."""
    given = json.loads(json.dumps(given).replace("PROJECT", str(project)))
    name = action.removeprefix("tool.") if action.startswith("tool.") else "any"
    details = {"tool_name": name, "tool_input": given}
    assert load(user=_EVERYTHING).judge(action, details).verdict == "ask"


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("tool.read_file", {"file_path": ".amplifier/policy.yaml"}),
        ("process.exec", {"command": "sort < .amplifier/policy.yaml > sorted"}),
        ("process.exec", {"command": "cat .git/config bundle.md"}),
        ("process.exec", {"command": "sed -n 10,25p bundle.md"}),
        ("process.exec", {"command": "git log -- .gitattributes && git add .gitattributes && git commit -m x"}),
        ("process.exec", {"command": "git switch -c other; git stash; git rebase main; cp a b; rm -rf build"}),
        ("process.exec", {"command": "git diff -- .gitattributes; git show HEAD:.mcp.json; git blame bundle.md"}),
        (
            "process.exec",
            {"command": "git mv a b; git worktree add ../t; git clone https://x.example/y; git init x"},
        ),
        ("process.exec", {"command": "git log --oneline -- .mcp.json; git diff --output=x .gitattributes"}),
        ("tool.todo", {"todos": [{"content": "look at .git/config and bundle.md"}]}),
    ],
)
def test_reading_is_not_writing(load: Load, action: str, given: dict[str, str]) -> None:
    """Rules may be looked at as every file of the project."""
    details = {"tool_name": action.removeprefix("tool."), "tool_input": given}
    assert load(user=_EVERYTHING).judge(action, details).verdict == "allow"


@pytest.mark.parametrize("is_first", [True, False])
def test_more_texts_than_are_looked_at_are_asked_for(load: Load, is_first: bool) -> None:
    """A call with too many texts is not allowed unseen, wherever among them a control file is named."""
    texts = [f"text {number}" for number in range(1_200)]
    named = [".git/hooks/pre-commit", *texts] if is_first else [*texts, ".git/hooks/pre-commit"]
    permissions = load(user=_EVERYTHING)
    for given in (named, texts, dict.fromkeys(texts, 1)):
        details = {"tool_name": "any", "tool_input": {"values": given}}
        judged = permissions.judge("mcp.call", details)
        assert (judged.verdict, "1,000 texts" in judged.reason) == ("ask", True)
        assert permissions.suggest("mcp.call", details) == ()


def test_many_numbers_are_no_texts(load: Load) -> None:
    """What cannot name a file does not count towards the limit, such as numbers and the same text again."""
    given = {"vector": list(range(5_000)), "rows": [{"kind": "x", "value": None}] * 3_000}
    details = {"tool_name": "any", "tool_input": given}
    assert load(user=_EVERYTHING).judge("mcp.call", details).verdict == "allow"


def test_links_lead_to_what_decides(load: Load, project: Path, home: Home) -> None:
    """A link to a file that decides is that file, and so is what a link in its place leads to."""
    (project / "innocent").symlink_to(".amplifier/policy.yaml")
    (project / "folder").symlink_to(home.path)
    (project / "kept").mkdir()
    (project / "kept/local.yaml").write_text("rules: []\n", encoding="utf-8")
    (project / ".amplifier/policy.local.yaml").symlink_to("../kept/local.yaml")
    permissions = load(user=_EVERYTHING)
    for path in ("innocent", "folder/policy.yaml", "kept/local.yaml", ".amplifier/policy.local.yaml"):
        assert permissions.judge(*_write(path)).verdict == "ask", path


def test_the_session_does_not_write_its_own_rules(home: Home, project: Path) -> None:
    """What was remembered for a session is kept in its folder."""
    folder = project / "sessions/0123"
    (home.path / "policy.yaml").write_text(_EVERYTHING, encoding="utf-8")
    permissions = Permissions.load(home, project, session=folder)
    assert permissions.judge(*_write(folder / "policy.yaml")).verdict == "ask"


def test_a_project_in_the_home_is_worked_on(home: Home) -> None:
    """Whoever works on a bundle of theirs is not asked for each file of it."""
    project = home.path / "bundles/mine"
    project.mkdir(parents=True)
    (home.path / "policy.yaml").write_text(_EVERYTHING, encoding="utf-8")
    permissions = Permissions.load(home, project)
    assert permissions.judge(*_write("context/words.md")).verdict == "allow"
    assert permissions.judge(*_write("bundle.yaml")).verdict == "ask"
    assert permissions.judge(*_write("../../policy.yaml")).verdict == "ask"


def test_the_home_in_the_project(project: Path) -> None:
    """In the user's home directory the folder of the project is the home of the program."""
    home = Home(project / ".amplifier")
    (home.path / "policy.yaml").write_text(_EVERYTHING, encoding="utf-8")
    permissions = Permissions.load(home, project)
    for path in (".amplifier/policy.yaml", ".amplifier/trust.json", ".amplifier/keys.env"):
        assert permissions.judge(*_write(path)).verdict == "ask"


def test_repositories_around_and_elsewhere(home: Home, project: Path, tmp_path: Path) -> None:
    """A folder of a repository, a worktree and a submodule depend on folders of git that lie outside of the project."""
    (home.path / "policy.yaml").write_text(_EVERYTHING, encoding="utf-8")
    bare = tmp_path / "store" / "repository"
    for folder in (bare, bare / "worktrees" / "tree"):
        (folder / "objects").mkdir(parents=True)
        (folder / "HEAD").touch()
    (bare / "worktrees" / "tree" / "commondir").write_text("../..\n", encoding="utf-8")
    (project / ".git").write_text(f"gitdir: {bare}/worktrees/tree\n", encoding="utf-8")
    (project / "sub").mkdir()
    for place in (project, project / "sub"):
        permissions = Permissions.load(home, place)
        for path in (project / ".git", bare / "config", bare / "hooks/x", bare / "worktrees/tree/commondir", bare):
            assert permissions.judge(*_write(path)).verdict == "ask", path
        assert permissions.judge(*_write(bare / "worktrees/tree/HEAD")).verdict == "allow"


def test_what_the_session_was_made_of(home: Home, project: Path) -> None:
    """The files that a session was composed of, and the code of its modules, are asked for wherever they lie."""
    (home.path / "policy.yaml").write_text(_EVERYTHING, encoding="utf-8")
    made_of = [project / "tools" / "tool-x", project / "parts" / "base.yaml"]
    permissions = Permissions.load(home, project, control_files=made_of)
    for path in ("tools/tool-x/code.py", "tools/tool-x/__pycache__/code.pyc", "tools/tool-x", "parts/base.yaml"):
        assert permissions.judge(*_write(path)).verdict == "ask", path
    assert permissions.judge(*_write("tools/tool-y/code.py")).verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git config filter.x.clean evil",
        "git config --local core.hooksPath evil",
        "git -c core.fsmonitor=evil status",
        "git --git-dir=evil status",
    ],
)
def test_git_settings_are_asked_for_whatever_rules_allow(load: Load, command: str) -> None:
    """A rule that allows all of git does not allow to change what git runs."""
    permissions = load(user='rules: [{command: "git *", verdict: allow}, {command: "git config *", verdict: allow}]\n')
    details = {"tool_name": "bash", "tool_input": {"command": command}}
    assert permissions.judge("process.exec", details).verdict != "allow"


@pytest.mark.parametrize("command", ["git submodule add https://x.example/y", "git worktree add ../tree", "tee .git/x"])
def test_what_changes_a_repository_is_asked_for_without_rules(load: Load, command: str) -> None:
    """By the rules that ship, nobody adds a submodule or a worktree unasked."""
    details = {"tool_name": "bash", "tool_input": {"command": command}}
    assert load().judge("process.exec", details).verdict == "ask"
