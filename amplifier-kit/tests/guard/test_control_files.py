"""One table names the files that decide what sessions and git run."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from amplifier_kit.guard.control_files import IN_GIT, IN_PROJECT, Use, git_folders_of, guarded_in, names_driver

_ROOT = Path(__file__).parents[3]
_KIT, _FOUNDATION = _ROOT / "amplifier-kit" / "amplifier_kit", _ROOT / "amplifier-foundation" / "amplifier_foundation"
_READERS = [
    *sorted((_KIT / "guard" / "sandbox").glob("*.py")),
    _FOUNDATION / "policy" / "protected_files.py",
    _FOUNDATION / "plan" / "project_files.py",
    *(_FOUNDATION / "trust" / name for name in ("control_files.py", "store.py", "check.py")),
]
#: What is named for another reason: secrets and programs of the home folder, a folder that is taken for a leftover, the
#: one file that cannot be kept, what tools leave in folders, and where the agents of a bundle lie.
_ALLOWED = {
    "system_paths.py": {".amplifier", "commondir"},
    "placeholders.py": {".mcp.json"},
    "project_files.py": {"agents"},
}


def _git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a commit."""
    folder = tmp_path / "main"
    folder.mkdir()
    _git(folder, "init", "-q")
    _git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


def test_every_row_is_for_something() -> None:
    """A row without a use protects nothing, and only what the sandbox keeps has something to stand in for it."""
    assert all(row.uses for row in (*IN_PROJECT, *IN_GIT))
    assert all(row.stand_in is None or Use.SANDBOX in row.uses for row in (*IN_PROJECT, *IN_GIT))


def test_the_sandbox_guards_what_the_table_names(repository: Path) -> None:
    """Every row for the sandbox is guarded in a project, and nothing else is."""
    (repository / ".gitattributes").write_text("* filter=x\n", encoding="utf-8")
    guarded = {str(Path(one.path).relative_to(repository)) for one in guarded_in(str(repository))}
    rows = {row.path for row in IN_PROJECT if Use.SANDBOX in row.uses}
    assert guarded == rows | {f".git/{row.path}" for row in IN_GIT if Use.SANDBOX in row.uses}


@pytest.mark.parametrize("file", _READERS, ids=lambda file: "/".join(file.parts[-2:]))
def test_control_files_are_listed_once(file: Path) -> None:
    """Trust, the policy and the sandbox name no control file themselves: a second list would lack some of the first."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = {row.path.rpartition("/")[2].rstrip("*") for row in (*IN_PROJECT, *IN_GIT)}
    # `config` is a key of every plan, too.
    plain = sorted(map(re.escape, names - {"", "config", "*.yaml", "*.yml"}))
    known = re.compile(rf"(^|/)({'|'.join(plain)})(/|\*|$)")
    documented = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documented
    }
    found = {text for text in texts if " " not in text and known.search(text)}
    assert found <= _ALLOWED.get(file.name, set())


def test_folders_of_git(repository: Path, tmp_path: Path) -> None:
    """A project depends on the repository around it, and a worktree or submodule on that which its file names."""
    git = str(repository / ".git")
    (repository / "sub" / "folder").mkdir(parents=True)
    assert git_folders_of(str(repository)) == git_folders_of(str(repository / "sub" / "folder")) == (git,)
    _git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert git_folders_of(str(tmp_path / "tree")) == (f"{git}/worktrees/tree", git)
    _git(repository, "submodule", "add", str(repository), "inner")
    assert git_folders_of(str(repository / "inner")) == (f"{git}/modules/inner",)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".git").symlink_to(git)
    assert git_folders_of(str(tmp_path / "linked")) == (git,)
    _git(tmp_path, "init", "-q", "--bare", "bare.git")
    assert git_folders_of(str(tmp_path / "bare.git")) == (str(tmp_path / "bare.git"),)


def test_a_folder_that_is_in_no_repository(tmp_path: Path) -> None:
    """There is nothing to guard then."""
    assert git_folders_of(str(tmp_path)) == ()


@pytest.mark.parametrize(
    ("text", "is_naming"),
    [
        ("*.a filter=x", True),
        ("*.a diff=python", False),
        ("a -filter", False),
        ("a b\n* text merge=mine", True),
        ("", False),
    ],
)
def test_drivers(tmp_path: Path, text: str, is_naming: bool) -> None:
    """Git's own drivers run no program; every other one may."""
    (tmp_path / "attributes").write_text(text, encoding="utf-8")
    assert names_driver(str(tmp_path / "attributes")) is is_naming
    assert not names_driver(str(tmp_path / "missing"))
