"""Links that a command could have made in the project show it nothing, and let it write nowhere, outside of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_kit.guard.processes.programs import leaves_by_link
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import SandboxError
from amplifier_kit.guard.sandbox.sandbox import MISSING, Sandbox

Inside = Callable[..., "subprocess.CompletedProcess[str]"]
MakeBox = Callable[..., Sandbox]


@pytest.fixture
def private(home: Path) -> Path:
    """Return a folder of the person's, beside the project."""
    made = home / "private"
    (made / "bin").mkdir(parents=True)
    (made / "file").write_text("secret words", encoding="utf-8")
    return made


@pytest.mark.parametrize("way", ["straight", "by a folder", "by a second link", "relative"])
def test_a_working_folder_that_leads_out(
    inside: Inside, make_box: MakeBox, project: Path, private: Path, way: str
) -> None:
    """A folder of the project that is a link out of it is refused, by whatever steps, and shows nothing."""
    (project / "folder").mkdir()
    link = project / ("folder/link" if way == "by a folder" else "link")
    if way == "by a second link":
        (project / "second").symlink_to(private)
        link.symlink_to("second")
    else:
        link.symlink_to(os.path.relpath(private, link.parent) if way == "relative" else private)
    with pytest.raises(SandboxError, match="too broad") as caught:
        make_box().wrap(["true"], cwd=link)
    assert caught.value.code == "working_dir_outside"
    assert "secret words" not in inside(f"cat '{private}/file' '{link}/file'").stdout


def test_a_working_folder_by_another_name_of_the_project(
    inside: Inside, make_box: MakeBox, project: Path, private: Path, tmp_path: Path
) -> None:
    """Whoever comes to the link by a name of the project that the sandbox was not told is refused as well."""
    (project / "link").symlink_to(private)
    (project / "deep").mkdir()
    (tmp_path / "alias").symlink_to(project)
    (tmp_path / "shortcut").symlink_to(project / "link")
    box = make_box()
    for folder in (tmp_path / "alias" / "link", tmp_path / "shortcut"):
        with pytest.raises(SandboxError, match="too broad"):
            box.wrap(["true"], cwd=folder)
    assert inside("pwd -P", cwd=tmp_path / "alias" / "deep").stdout == f"{project}/deep\n"


def test_a_link_within_the_project(inside: Inside, project: Path) -> None:
    """One that stays in the project can be worked in."""
    (project / "real").mkdir()
    (project / "link").symlink_to("real")
    assert inside("pwd; touch made", cwd=project / "link").stdout == f"{project}/link\n"
    assert (project / "real" / "made").exists()


@pytest.mark.parametrize("key", ["writable", "readable"])
@pytest.mark.parametrize("name", ["dist", "build/dist", "~"])
def test_settings_that_name_a_link(
    inside: Inside, make_box: MakeBox, project: Path, private: Path, key: str, name: str
) -> None:
    """A folder that the settings name in the project opens nothing once a command has put a link there."""
    place = "dist" if name == "~" else name
    # The home that the project lies in, by way of which it can be named too.
    box = make_box(**{key: [f"~/{project.parent.name}/{project.name}/dist" if name == "~" else name]})
    assert inside(f"mkdir -p build && ln -s '{private}' {place}", box=box).returncode == 0
    with pytest.raises(SandboxError, match="which a link resolves to") as caught:
        box.wrap(["/bin/sh", "-c", f"echo x > {place}/made; cat {place}/file"])
    assert caught.value.code == "sandbox_led_out"
    assert f"name {project / place}, which a link resolves to {private}:" in str(caught.value)
    assert not (private / "made").exists()


def test_settings_that_name_a_link_of_a_writable_folder(make_box: MakeBox, private: Path, tmp_path: Path) -> None:
    """What can be written besides the project is no better place for a link."""
    shared = tmp_path / "shared"
    (shared / "cache").mkdir(parents=True)
    settings = {"writable": [str(shared), str(shared / "cache")], "readable": [str(shared / "cache")]}
    assert make_box(**settings).wrap(["true"])[0][-1] == "true"
    (shared / "cache").rmdir()
    (shared / "cache").symlink_to(private)
    for broken in (settings, {**settings, "writable": [str(shared)]}):
        with pytest.raises(SandboxError, match="which a link resolves to"):
            make_box(**broken).wrap(["true"])


def test_settings_that_name_a_person_s_link(inside: Inside, make_box: MakeBox, home: Path, private: Path) -> None:
    """A link that lies where no command can write counts as it always did."""
    (home / "shortcut").symlink_to(private)
    (private / "file").chmod(0o644)
    assert inside(f"cat '{private}/file'", box=make_box(readable=["~/shortcut"])).stdout == "secret words"


@pytest.mark.parametrize("target", ["private", "private/bin"])
def test_a_folder_on_path_that_leads_out(
    inside: Inside, project: Path, home: Path, private: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Where the project has programs on PATH, as with an environment of its own, a link shows nothing more."""
    monkeypatch.setenv("PATH", f"{project}/.venv/bin{os.pathsep}{os.environ['PATH']}")
    assert inside(f"mkdir .venv && ln -s '{home / target}' .venv/bin").returncode == 0
    done = inside(f"cat '{private}/file'; ls .venv/bin/")
    assert "secret words" not in done.stdout
    assert done.returncode != 0


def test_packages_that_lie_in_the_project(
    inside: Inside, project: Path, private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment elsewhere that the project is installed in shows no other folder once the project has a link."""
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / "env" / "bin").mkdir()
    (site / "x.pth").write_text(f"{project}/src\n", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{tmp_path}/env/bin{os.pathsep}{os.environ['PATH']}")
    assert inside(f"ln -s '{private}' src").returncode == 0
    assert "secret words" not in inside(f"cat '{private}/file' src/file").stdout


def test_a_bubblewrap_in_a_writable_folder(
    tmp_path: Path, project: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that commands could have put on PATH is not run, wherever they can write."""
    for folder in (tmp_path / "tools" / "bin", private / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bwrap").write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / "bwrap").chmod(0o755)
    (project / "bin").symlink_to(private / "bin")
    for path in (f"{tmp_path}/tools/bin", f"{project}/bin"):
        monkeypatch.setenv("PATH", path)
        status = Sandbox(SandboxConfig(writable=(str(tmp_path / "tools"),)), project).status
        assert status.reason == MISSING


def test_links_are_followed_as_the_kernel_does(tmp_path: Path) -> None:
    """Steps back, links to links and links in a circle are told by where each link lies."""
    root, other = tmp_path / "root", tmp_path / "other"
    (root / "sub").mkdir(parents=True)
    other.mkdir()
    (root / "out").symlink_to("../other")
    (root / "in").symlink_to("sub")
    (root / "circle").symlink_to("circle")
    (other / "back").symlink_to(root / "out")
    roots = [str(root)]
    found = {
        name: leaves_by_link(str(tmp_path / name), roots)
        for name in ("root", "root/sub/../../other", "root/in", "root/out", "root/out/x", "other/back", "other")
    }
    assert [name for name, led in found.items() if led] == ["root/out", "root/out/x", "other/back"]
    assert not leaves_by_link(str(root / "circle"), roots)
