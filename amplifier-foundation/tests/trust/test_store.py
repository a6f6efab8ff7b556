"""Who is trusted, and what an untrusted project cannot have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.trust.control_files import ControlFileError
from amplifier_foundation.trust.store import Trust, TrustStore, TrustStoreError

CONTROL_FILES = [
    ".amplifier/settings.yaml",
    ".amplifier/settings.local.yaml",
    ".amplifier/bundles/dev/bundle.md",
    ".amplifier/bundles/flat.yaml",
    ".amplifier/hooks/deep/er/hook.py",
    ".amplifier/agents/explorer.md",
    ".amplifier/modules/tool-x/pyproject.toml",
    ".amplifier/modules/tool-x/amplifier_module_tool_x/__init__.py",
    ".amplifier/modules/tool-x/amplifier_module_tool_x/planted.pyc",
    ".amplifier/commands/ship.md",
    ".amplifier/skills/mine/scripts/run.py",
    ".claude/commands/ship.md",
    ".claude/agents/explorer.md",
    ".claude/skills/mine/SKILL.md",
    ".agents/skills/mine/SKILL.md",
    "bundle.yml",
    ".mcp.json",
    ".amplifier/mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks/guard.sh",
    "bundle.md",
    "bundle.yaml",
    "behaviors/extra.yaml",
]
OTHER_FILES = [".amplifier/AGENTS.md", "src/main.py", "modules/tool-y/code.py", "README.md"]


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    """Return a store in a home that does not exist yet."""
    return TrustStore(Home(tmp_path / "home"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with every control file, and others."""
    folder = tmp_path / "my prøject"
    for name in (*CONTROL_FILES, *OTHER_FILES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("# as it was\n", encoding="utf-8")
    return folder


def test_nothing_is_trusted_until_it_is(store: TrustStore, project: Path) -> None:
    """A folder is unknown, then trusted, then unknown again."""
    assert store.state(project) == Trust("unknown")
    record = store.trust(project)
    assert record.path == project.resolve()
    assert sorted(record.files) == sorted(CONTROL_FILES)
    assert store.state(project) == Trust("trusted")
    assert [record.path for record in store.list()] == [project.resolve()]
    assert store.revoke(project)
    assert store.state(project) == Trust("unknown")
    assert not store.revoke(project)


def test_trust_is_for_one_folder(store: TrustStore, project: Path) -> None:
    """Neither the parent nor a folder inside of a trusted one is trusted with it."""
    store.trust(project)
    assert store.state(project.parent) == Trust("unknown")
    assert store.state(project / "src") == Trust("unknown")


def test_a_link_to_a_trusted_folder_is_that_folder(store: TrustStore, project: Path, tmp_path: Path) -> None:
    """Trust follows the folder, by whatever name it is reached."""
    (tmp_path / "link").symlink_to(project)
    store.trust(tmp_path / "link")
    assert store.state(project).trusted


@pytest.mark.parametrize("name", CONTROL_FILES)
def test_a_changed_control_file_ends_the_trust(store: TrustStore, project: Path, name: str) -> None:
    """A control file that changes, or goes, is named, and the project is not trusted any more."""
    store.trust(project)
    (project / name).write_text("# changed\n", encoding="utf-8")
    assert store.state(project) == Trust("changed", (name,))
    (project / name).unlink()
    assert store.state(project) == Trust("changed", (name,))
    store.trust(project)
    assert store.state(project).trusted


@pytest.mark.parametrize("name", [*CONTROL_FILES, ".amplifier/bundles/new/deep.yaml", ".amplifier/hooks/new"])
def test_a_control_file_that_came_ends_the_trust(store: TrustStore, project: Path, name: str) -> None:
    """A new control file is something that nobody has looked at."""
    (project / name).unlink(missing_ok=True)
    store.trust(project)
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("# new\n", encoding="utf-8")
    assert store.state(project) == Trust("changed", (name,))


@pytest.mark.parametrize("name", OTHER_FILES)
def test_other_files_may_change(store: TrustStore, project: Path, name: str) -> None:
    """Work in a trusted project, on what no session runs, does not ask for trust again."""
    store.trust(project)
    (project / name).write_text("# edited\n", encoding="utf-8")
    (project / ".amplifier" / "bundles" / "__pycache__").mkdir()
    (project / ".amplifier" / "bundles" / "__pycache__" / "x.pyc").touch()
    assert store.state(project).trusted


def test_further_files_can_be_trusted_with_the_folder(store: TrustStore, project: Path, tmp_path: Path) -> None:
    """A file that a bundle includes from an odd place in the project counts when it is named; others are left out."""
    (project / "parts").mkdir()
    part = project / "parts" / "tools.yaml"
    part.write_text("tools: []\n", encoding="utf-8")
    store.trust(project, [part, tmp_path / "elsewhere.yaml"])
    part.write_text("tools: [x]\n", encoding="utf-8")
    assert store.state(project) == Trust("changed", ("parts/tools.yaml",))


@pytest.mark.parametrize("name", ["code.py", "deep/er/data.json", "new.py", "new.pyc", "__pycache__/code.py"])
def test_folders_can_be_trusted_with_the_folder(store: TrustStore, project: Path, name: str) -> None:
    """The code of a module anywhere in the project counts with every file, also one that comes later."""
    module = project / "modules" / "tool-y"
    (module / "deep" / "er").mkdir(parents=True)
    (module / "deep" / "er" / "data.json").touch()
    assert not store.covers(project, module)
    store.trust(project, [module])
    assert store.covers(project, module)
    assert store.covers(project, module / "deep")
    assert not store.covers(project, project / "modules" / "tool-yy")
    assert store.state(project).trusted
    (module / "__pycache__").mkdir()
    (module / "__pycache__" / "code.pyc").touch()
    assert store.state(project).trusted
    (module / name).write_text("changed", encoding="utf-8")
    assert store.state(project) == Trust("changed", (f"modules/tool-y/{name}",))


def test_a_project_that_is_a_module_itself(store: TrustStore, project: Path) -> None:
    """What Python imports from the project counts then, and no other file of it."""
    store.trust(project, [project])
    assert store.covers(project, project)
    (project / "README.md").write_text("changed", encoding="utf-8")
    assert store.state(project).trusted
    (project / "src" / "main.py").write_text("changed", encoding="utf-8")
    assert store.state(project) == Trust("changed", ("src/main.py",))


def test_a_record_of_an_older_version(store: TrustStore, project: Path) -> None:
    """It covers what counts in every project and nothing else."""
    store.trust(project, [project / "modules" / "tool-y"])
    data = json.loads(store.home.trust.read_text("utf-8"))
    for record in data["folders"].values():
        del record["covers"]
        del record["files"]["modules/tool-y/code.py"]
    store.home.trust.write_text(json.dumps(data), encoding="utf-8")
    assert store.state(project).trusted
    assert not store.covers(project, project / "modules" / "tool-y")
    assert store.covers(project, project / ".amplifier" / "modules" / "tool-x")


def test_an_edit_by_the_app_is_taken_over_alone(store: TrustStore, project: Path) -> None:
    """What the program edited on the user's word is trusted; what somebody else changed meanwhile is not."""
    settings = project / ".amplifier" / "settings.yaml"
    store.accept(project, settings)
    assert store.state(project) == Trust("unknown")
    store.trust(project)
    settings.write_text("# by the app\n", encoding="utf-8")
    (project / ".mcp.json").write_text("{}", encoding="utf-8")
    store.accept(project, settings)
    assert store.state(project) == Trust("changed", (".mcp.json",))


def test_a_link_among_control_files_is_followed(store: TrustStore, project: Path, tmp_path: Path) -> None:
    """What a control file or folder that is a link leads to is what counts; loops end."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "bundle.md").write_text("one", encoding="utf-8")
    (project / ".amplifier" / "bundles" / "linked").symlink_to(outside)
    (project / ".amplifier" / "bundles" / "loop").symlink_to(project / ".amplifier" / "bundles")
    (project / "behaviors" / "dangling.yaml").symlink_to(tmp_path / "later.yaml")
    store.trust(project)
    assert store.state(project).trusted
    (outside / "bundle.md").write_text("two", encoding="utf-8")
    (tmp_path / "later.yaml").write_text("came", encoding="utf-8")
    assert store.state(project).changed == (".amplifier/bundles/linked/bundle.md", "behaviors/dangling.yaml")


def test_a_pipe_among_control_files_does_not_hang(store: TrustStore, project: Path) -> None:
    """A named pipe in place of a control file is told from a file without reading it."""
    (project / "bundle.md").unlink()
    os.mkfifo(project / "bundle.md")
    store.trust(project)
    assert store.state(project).trusted


def test_an_unreadable_control_file_is_an_error(store: TrustStore, project: Path) -> None:
    """What nobody can read cannot be trusted."""
    store.trust(project)
    (project / "bundle.md").unlink()
    (project / "bundle.md").symlink_to("bundle.md")  # a link to itself: not even root can read it
    with pytest.raises(ControlFileError, match=r"bundle\.md: cannot be read"):
        store.trust(project)
    assert not store.state(project).trusted
    assert "bundle.md" in str(store.state(project).problem)


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"\xff", b'{"version": 2, "folders": {}}', b'{"version": 1}', b'{"version": 1, "folders": {"/": 1}}'],
)
def test_an_unreadable_store_trusts_nothing_and_says_so(store: TrustStore, project: Path, content: bytes) -> None:
    """A damaged store is an error for who asks to change it, trusts nothing, and is not overwritten."""
    store.trust(project)
    store.home.trust.write_bytes(content)
    state = store.state(project)
    assert not state.trusted
    assert str(store.home.trust) in str(state.problem)
    for change in (lambda: store.trust(project), lambda: store.revoke(project), store.list):
        with pytest.raises(TrustStoreError, match="delete the file and trust your folders again"):
            change()
    assert store.home.trust.read_bytes() == content


def test_a_home_that_cannot_be_written_is_an_error(tmp_path: Path, project: Path) -> None:
    """Trust that cannot be recorded is not given silently."""
    (tmp_path / "file").touch()
    with pytest.raises(TrustStoreError, match="cannot be written"):
        TrustStore(Home(tmp_path / "file")).trust(project)


def test_only_folders_can_be_trusted(store: TrustStore, project: Path) -> None:
    """A file, or nothing, is no project."""
    for path in (project / "README.md", project / "nowhere"):
        with pytest.raises(TrustStoreError, match="not a folder"):
            store.trust(path)


def test_the_store_is_readable_by_its_owner_alone(store: TrustStore, project: Path) -> None:
    """The record holds paths of the user, and decides what runs."""
    store.trust(project)
    assert store.home.trust.stat().st_mode & 0o777 == 0o600
    assert json.loads(store.home.trust.read_text(encoding="utf-8"))["version"] == 1


#: Another process that trusts folders one after the other.
_OTHER = """
import pathlib, sys
from amplifier_foundation.paths import Home
from amplifier_foundation.trust.store import TrustStore
for folder in sys.argv[2:]:
    TrustStore(Home(pathlib.Path(sys.argv[1]))).trust(pathlib.Path(folder))
"""


def test_two_processes_do_not_undo_each_other(store: TrustStore, tmp_path: Path) -> None:
    """Folders that several processes trust at the same time are all trusted afterwards."""
    folders = [tmp_path / f"project-{number}" for number in range(30)]
    for folder in folders:
        folder.mkdir()
    workers = [
        subprocess.Popen([sys.executable, "-c", _OTHER, str(store.home.path), *map(str, folders[start::3])])
        for start in range(3)
    ]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert [record.path for record in store.list()] == sorted(folder.resolve() for folder in folders)
