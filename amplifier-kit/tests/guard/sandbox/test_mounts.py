"""Odd projects, odd home folders, and what of them is to be seen inside."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import SandboxError
from amplifier_kit.guard.sandbox.sandbox import MISSING, Sandbox
from amplifier_kit.guard.sandbox.system_paths import is_too_wide, tool_folders

Inside = Callable[..., "subprocess.CompletedProcess[str]"]
MakeBox = Callable[..., Sandbox]

_SECRETS = (
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".gnupg/key",
    ".netrc",
    ".config/gcloud/token",
    ".kube/config",
    ".docker/config.json",
    ".cargo/credentials.toml",
    ".git-credentials",
    ".amplifier/keys.env",
)


def _put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret words", encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["two words", "ünïcode 文", "-dash", "qu'ote\"s", "$(touch x)", "new\nline", "a:b,c=d"]
)
def test_odd_names(inside: Inside, make_box: MakeBox, tmp_path: Path, name: str) -> None:
    """A project may be called whatever a folder may be called."""
    folder = tmp_path / name
    folder.mkdir()
    done = inside("pwd > made; pwd", box=make_box(folder))
    assert done.stdout == f"{folder}\n"
    assert (folder / "made").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["home", name])


def test_a_project_by_way_of_a_link(inside: Inside, make_box: MakeBox, project: Path, tmp_path: Path) -> None:
    """It is there by both of its names, guarded by both, and what lies in it can be run in."""
    (project / "deep").mkdir()
    (project / ".claude").mkdir()
    (tmp_path / "link").symlink_to(project)
    box = make_box(tmp_path / "link")
    done = inside("pwd; pwd -P; echo x > made; echo x > .claude/x", box=box)
    assert done.stdout.splitlines() == [str(tmp_path / "link"), str(project)]
    assert inside("pwd", box=box, cwd=tmp_path / "link" / "deep").stdout == f"{tmp_path}/link/deep\n"
    assert inside("pwd", box=box, cwd=project / "deep").stdout == f"{project}/deep\n"
    assert inside(f"cd '{tmp_path}/link/deep' && touch here", box=box).returncode == 0
    assert (project / "made").exists()
    assert list((project / ".claude").iterdir()) == []


def test_a_folder_elsewhere(inside: Inside, make_box: MakeBox, home: Path, tmp_path: Path) -> None:
    """A folder outside of the project can be run in and read, with its secrets hidden; whole machines cannot."""
    elsewhere = tmp_path / "elsewhere"
    _put(elsewhere, "file")
    done = inside("cat file; touch made", cwd=elsewhere)
    assert (done.stdout, done.returncode) == ("secret words", 1)
    for folder in (Path("/"), Path("/tmp"), home, home.parent):
        with pytest.raises(SandboxError, match="too broad") as caught:
            make_box().wrap(["true"], cwd=folder)
        assert caught.value.code == "working_dir_outside"
    with pytest.raises(SandboxError, match="does not exist") as missing:
        make_box().wrap(["true"], cwd=tmp_path / "nowhere")
    assert missing.value.code == "working_dir_missing"


def test_writable_and_readable(inside: Inside, make_box: MakeBox, home: Path, tmp_path: Path) -> None:
    """What the settings name is there, from the home folder, from the project or by its whole path."""
    _put(tmp_path, "reads/file", "writes/file", "writes/.git/hooks/x", "home/.gitconfig", "home/work/beside/file")
    box = make_box(readable=[str(tmp_path / "reads"), "~/.gitconfig", "../beside"], writable=[str(tmp_path / "writes")])
    done = inside(f"cat '{tmp_path}/reads/file' ~/.gitconfig ../beside/file", box=box)
    assert done.stdout == "secret words" * 3
    inside(f"cd '{tmp_path}'; echo x > reads/made; echo x > writes/made; echo x > writes/.git/hooks/x", box=box)
    assert not (tmp_path / "reads" / "made").exists()
    assert (tmp_path / "writes" / "made").exists()
    assert (tmp_path / "writes" / ".git" / "hooks" / "x").read_text(encoding="utf-8") == "secret words"


def test_the_home_folder_is_empty(inside: Inside, home: Path) -> None:
    """It can be written, for what programs keep there, but nothing in it is the person's, and nothing stays."""
    _put(home, *_SECRETS, "notes.txt", ".bashrc")
    done = inside("ls -A ~; mkdir -p ~/.cache && touch ~/.cache/x && echo written")
    assert done.stdout == "work\nwritten\n"
    assert not (home / ".cache").exists()


def test_home_as_the_project(inside: Inside, make_box: MakeBox, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are hidden and what is run at the next login cannot be changed, although all else can."""
    _put(home, *_SECRETS, "notes.txt", ".bashrc", ".gitconfig", ".local/bin/tool", "own/keys.env")
    monkeypatch.setenv("PATH", f"{home}/.local/bin{os.pathsep}{os.environ['PATH']}")
    box = make_box(home, hidden=(home / "own",))
    done = inside(f"cat {' '.join(_SECRETS)} own/keys.env; grep -rs 'secret words' . | wc -l", box=box)
    # The notes, .bashrc, .gitconfig and the tool: these are no secrets.
    assert done.stdout == "4\n"
    inside(
        f"echo x > notes.txt; for file in .bashrc .gitconfig .local/bin/tool {' '.join(_SECRETS)}; do echo x > $file; "
        "echo x > /tmp/x; mv /tmp/x $file; done; mv .local .gone; mv .ssh .away; touch .ssh/new own/new",
        box=box,
    )
    assert (home / "notes.txt").read_text(encoding="utf-8") == "x\n"
    for name in (*_SECRETS, ".bashrc", ".gitconfig", ".local/bin/tool", "own/keys.env"):
        assert (home / name).read_text(encoding="utf-8") == "secret words", name
    assert not (home / ".ssh" / "new").exists()


def test_secrets_where_programs_are(inside: Inside, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of programs in the home folder is there without the keys that its package manager keeps in it."""
    _put(
        home, ".cargo/credentials.toml", ".cargo/bin/tool", ".local/bin/tool", ".local/share/keyrings/login", "bin/own"
    )
    monkeypatch.setenv(
        "PATH", os.pathsep.join([f"{home}/.cargo/bin", f"{home}/.local/bin", f"{home}/bin", os.environ["PATH"]])
    )
    done = inside("cd; cat .cargo/bin/tool .local/bin/tool bin/own; cat .cargo/credentials.toml; ls .local; ls -A")
    assert done.stdout == "secret words" * 3 + "bin\n.cargo\n.local\nbin\nwork\n"


def test_packages_that_lie_elsewhere(
    inside: Inside, home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an environment on PATH points to can be read, but an environment in the project shows nothing new."""
    _put(tmp_path, "checkout/pkg/file", "other/pkg/file", "env/bin/tool")
    for site, target in ((tmp_path / "env", "checkout"), (project / ".venv", "other")):
        _put(site, "lib/python3.11/site-packages/x.pth", "bin/tool")
        pth = site / "lib/python3.11/site-packages/x.pth"
        pth.write_text(f"import os\n# words\n/\n{home}\n{tmp_path / target}\n", encoding="utf-8")
    monkeypatch.setenv("PATH", os.pathsep.join([f"{tmp_path}/env/bin", f"{project}/.venv/bin", os.environ["PATH"]]))
    (home / "notes").touch()
    done = inside(f"cat '{tmp_path}/checkout/pkg/file' '{tmp_path}/other/pkg/file'; ls ~")
    assert done.stdout == "secret wordswork\n"


def test_folders_of_programs() -> None:
    """The folder above a `bin` is shown, never a home folder, what everybody writes to, or what the project is in."""
    if not os.path.isdir("/usr/local/bin"):
        pytest.skip("there is no /usr/local/bin")
    assert [
        folder
        for folder in tool_folders("/usr/bin:/usr/local/bin:bin::.", "/home/ada", ["/home/ada/p"])
        if "/usr" in folder
    ] == []


@pytest.mark.parametrize(
    "folder", ["/", "/home", "/usr", "/usr/lib", "/etc", "/tmp", "/var", "/proc/1", "/opt", "/dev/shm"]
)
def test_what_is_no_project(folder: str) -> None:
    """Half a machine is no project: a sandbox that lets it be written would be none."""
    assert is_too_wide(folder, "/home/ada")
    status = Sandbox(SandboxConfig(mode="required"), folder).status
    assert status.status == "absent"


@pytest.mark.parametrize(
    "folder", ["/home/ada", "/home/ada/p", "/usr/src/app", "/opt/app", "/srv/app", "/tmp/app", "/var/www"]
)
def test_what_is_a_project(folder: str) -> None:
    """Wherever people work, the home folder included, is one."""
    assert not is_too_wide(folder, "/home/ada")


def test_somebody_else_s_project(inside: Inside, make_box: MakeBox, tmp_path: Path) -> None:
    """Root is told beforehand that another user's project can only be read, and who can write to it."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder that is somebody else's")
    folder = tmp_path / "theirs"
    _put(folder, "file")
    os.chown(folder, 1001, 1001)
    box = make_box(folder)
    assert "the project belongs to user 1001" in box.summary()
    done = inside("cat file; touch made", box=box)
    assert (done.stdout, done.returncode) == ("secret words", 1)
    assert sorted(path.name for path in folder.iterdir()) == ["file"]


def test_a_project_that_is_read_only(inside: Inside, make_box: MakeBox, project: Path) -> None:
    """Where nothing can be made, nothing has to be kept from being made."""
    if os.geteuid() == 0:
        pytest.skip("root may write to every folder of its own")
    project.chmod(0o555)
    try:
        done = inside("ls -A; touch made")
    finally:
        project.chmod(0o755)
    assert (done.stdout, done.returncode) == ("", 1)


def test_what_stands_in_is_gone_after(make_box: MakeBox, project: Path) -> None:
    """Empty folders that stood in for something go with the last who needs them; what somebody put there stays."""
    first, second = make_box(), make_box()
    for box in (first, second):
        argv, environment = box.wrap(["true"])
        subprocess.run(argv, env=environment, check=True)
    first.close()
    assert (project / ".amplifier").is_dir()
    (project / ".claude" / "theirs").touch()
    second.close()
    assert sorted(path.name for path in project.iterdir()) == [".claude"]


def test_what_a_killed_program_left(make_box: MakeBox, project: Path) -> None:
    """A folder where only a file makes sense is not kept as if it were somebody's."""
    (project / ".mcp.json").mkdir()
    box = make_box()
    argv, environment = box.wrap(["true"])
    subprocess.run(argv, env=environment, check=True)
    box.close()
    assert list(project.iterdir()) == []


def test_links_in_place_of_what_is_guarded(inside: Inside, project: Path) -> None:
    """What a link in the project leads to is guarded, where that is in the project too."""
    _put(project, "hooks/pre-commit", ".git/HEAD")
    (project / ".git" / "hooks").symlink_to("../hooks")
    inside("echo x > .git/hooks/pre-commit; echo x > hooks/pre-commit; mv hooks gone")
    assert (project / "hooks" / "pre-commit").read_text(encoding="utf-8") == "secret words"


def test_a_worktree(inside: Inside, project: Path) -> None:
    """The file that says where the repository is cannot be changed."""
    (project / ".git").write_text("gitdir: /elsewhere\n", encoding="utf-8")
    inside("echo gitdir: /tmp > .git; rm -f .git; mv .git x")
    assert (project / ".git").read_text(encoding="utf-8") == "gitdir: /elsewhere\n"


def test_a_worktree_whose_repository_is_writable(inside: Inside, make_box: MakeBox, home: Path, tmp_path: Path) -> None:
    """Named in the settings, the repository can be committed to, and its hooks and config are guarded there too."""
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com"]
    main, tree = tmp_path / "main", tmp_path / "tree"
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    subprocess.run([*git, "-C", str(main), "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    subprocess.run(["git", "-C", str(main), "worktree", "add", "-q", str(tree)], check=True)
    config = (main / ".git" / "config").read_text(encoding="utf-8")
    box = make_box(tree, writable=[str(main / ".git")])
    done = inside(f"touch file && git add file && {' '.join(git)} commit -qm two && git log --format=%s", box=box)
    assert done.stdout == "two\none\n", done.stderr
    inside(f"cd '{main}/.git'; echo x >> config; mkdir -p hooks; echo x > hooks/post-commit", box=box)
    assert (main / ".git" / "config").read_text(encoding="utf-8") == config
    assert not (main / ".git" / "hooks" / "post-commit").exists()


def test_a_temporary_folder_of_the_caller_s(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the one that is there inside."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "own"))
    done = inside("dirname $(mktemp)")
    assert done.stdout == "/tmp\n"


def test_programs_are_not_taken_from_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bubblewrap that a command has put on PATH is not run outside, where it would be free."""
    fake = project / "bin" / "bwrap"
    _put(project, "bin/bwrap")
    fake.write_text(f"#!/bin/sh\ntouch '{project}/ran'\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent))
    status = Sandbox(SandboxConfig(), project).status
    assert (status.status, status.reason) == (
        "absent",
        MISSING,
    )
    linked = project.parent / "linked"
    linked.mkdir()
    (linked / "bwrap").symlink_to(fake)
    monkeypatch.setenv("PATH", str(linked))
    assert Sandbox(SandboxConfig(), project).status.status == "absent"
    assert not (project / "ran").exists()
    assert shutil.which("bwrap") is not None
