"""Locks: what a bundle fetched is pinned, nothing loses a pin by accident, and nobody pins for others."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, prepare
from amplifier_foundation.sources.activation import ModuleActivationError
from amplifier_foundation.trust.check import UntrustedError

BUNDLE = """\
bundle: {name: mine}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a bundle."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "bundle.yaml").write_text(BUNDLE)
    return folder


def _options(home: Home, project: Path, **more: Any) -> Options:
    return Options(home, project, environ={"PATH": os.environ["PATH"], "HOME": str(home.path)}, **more)


def _git(folder: Path, *arguments: str) -> str:
    names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **names}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def _repository(folder: Path, **files: str) -> str:
    """Make a repository, or its next commit, and return the address."""
    folder.mkdir(exist_ok=True)
    if not (folder / ".git").exists():
        _git(folder, "init", "-q", "-b", "main")
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "x")
    return f"git+file://{folder}@main"


def _module(folder: Path, name: str, version: str = "1") -> str:
    package = folder / f"amplifier_module_{name.replace('-', '_')}"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(f"async def mount(coordinator, config=None):\n    '''{version}'''\n")
    return _repository(folder, pyproject__toml=f'[project]\nname = "amplifier-module-{name}"\nversion = "{version}"\n')


def _pinned(path: Path) -> dict[str, str]:
    return {uri: pin["commit"] for uri, pin in json.loads(path.read_text())["sources"].items()}


def _locks(home: Home) -> dict[str, str]:
    return {uri: commit for path in home.locks.glob("*.lock") for uri, commit in _pinned(path).items()}


async def test_a_run_that_may_do_without_sources_keeps_their_pins(home: Home, project: Path, tmp_path: Path) -> None:
    """Offline and without its cache a run that is allowed to go on says nothing about what it could not have."""
    tool = _module(tmp_path / "tool", "tool-k")
    part = _repository(
        tmp_path / "part", bundle__yaml=f"bundle: {{name: part}}\ntools: [{{module: tool-k, source: '{tool}'}}]\n"
    )
    (project / "bundle.yaml").write_text(BUNDLE + f"includes: ['{part}']\n")
    await prepare(_options(home, project, bundle="bundle.yaml", trust=True))
    before = (project / "bundle.lock").read_bytes()
    assert set(_pinned(project / "bundle.lock")) == {tool, part}
    for folder in ("tool", "part"):
        (tmp_path / folder).rename(tmp_path / f"{folder}-away")
    for more in ({}, {"offline": True}, {"update": True}):
        empty = Home(tmp_path / f"home-{len(more)}-{'-'.join(more)}")
        options = _options(empty, project, bundle="bundle.yaml", trust=True, allow_missing=True, **more)
        assert (await prepare(options)).warnings
        assert (project / "bundle.lock").read_bytes() == before


async def test_what_is_refused_is_not_locked(home: Home, project: Path, tmp_path: Path) -> None:
    """A prepare that is refused, or fails, writes no lock."""
    tool = _module(tmp_path / "tool", "tool-r")
    (project / "behaviors").mkdir()
    (project / "behaviors" / "b.yaml").write_text(
        f"bundle: {{name: b}}\ntools: [{{module: tool-r, source: '{tool}'}}]\n"
    )
    (project / "bundle.yaml").write_text(BUNDLE + "includes: [./behaviors/b.yaml]\n")
    with pytest.raises(UntrustedError):
        await prepare(_options(home, project, bundle="bundle.yaml"))
    (project / "bundle.yaml").write_text(
        BUNDLE + f"includes: [./behaviors/b.yaml]\ntools: [{{module: tool-no, source: 'git+file://{tmp_path}/none'}}]\n"
    )
    with pytest.raises(ModuleActivationError):
        await prepare(_options(home, project, bundle="bundle.yaml", trust=True))
    assert not (project / "bundle.lock").exists()
    assert not home.locks.exists()


async def test_what_settings_add_is_pinned_in_the_home(home: Home, project: Path, tmp_path: Path) -> None:
    """The lock of a project holds what its bundle names; what the user adds is pinned for the user, in each project."""
    own, added = _module(tmp_path / "own", "tool-own"), _module(tmp_path / "added", "tool-added")
    (project / "bundle.yaml").write_text(BUNDLE + f"tools: [{{module: tool-own, source: '{own}'}}]\n")
    home.settings.write_text(f"modules: {{tools: [{{module: tool-added, source: '{added}'}}]}}\n")
    first = await prepare(_options(home, project, bundle="bundle.yaml"))
    assert set(_pinned(project / "bundle.lock")) == {own}
    assert set(_locks(home)) == {added}
    assert set(first.composed.pins) == {own, added}
    _module(tmp_path / "own", "tool-own", "2")
    _module(tmp_path / "added", "tool-added", "2")
    again = await prepare(_options(home, project, bundle="bundle.yaml", locked=True))
    assert again.composed.pins == first.composed.pins
    updated = await prepare(_options(home, project, bundle="bundle.yaml", update=True))
    assert all(updated.composed.pins[uri] != first.composed.pins[uri] for uri in (own, added))


async def test_projects_keep_each_others_pins(home: Home, tmp_path: Path) -> None:
    """A bundle that many projects use does not lose the pins of one of them when another one runs it."""
    tool = _module(tmp_path / "tool", "tool-one")
    one, other = tmp_path / "one", tmp_path / "other"
    (one / ".amplifier").mkdir(parents=True)
    other.mkdir()
    (one / ".amplifier" / "settings.yaml").write_text(f"modules: {{tools: [{{module: tool-one, source: '{tool}'}}]}}\n")
    await prepare(_options(home, one, trust=True))
    await prepare(_options(home, other))
    prepared = await prepare(_options(home, one, trust=True, locked=True, offline=True))
    assert set(prepared.composed.pins) == {tool}


async def test_a_projects_lock_does_not_choose_what_the_user_runs(home: Home, project: Path, tmp_path: Path) -> None:
    """A commit in a project's lock for a source that only the user names needs trust: it may be anybody's."""
    tool = _module(tmp_path / "tool", "tool-chosen")
    chosen = await prepare(
        _options(Home(tmp_path / "elsewhere"), project, bundle=_with_tool(tmp_path / "b.yaml", "tool-chosen", tool))
    )
    home.settings.write_text(f"modules: {{tools: [{{module: tool-chosen, source: '{tool}'}}]}}\n")
    lock = {"version": 1, "bundle": "mine", "sources": {tool: chosen.composed.pins[tool]}}
    (project / "bundle.lock").write_text(json.dumps(lock))
    with pytest.raises(UntrustedError, match=r"bundle\.lock: .*tool.* in a state that the project chooses"):
        await prepare(_options(home, project, bundle="bundle.yaml"))
    await prepare(_options(home, project, bundle="bundle.yaml", trust=True))
    assert await prepare(_options(home, project, bundle="bundle.yaml")), "now the pin is the user's own"


def _with_tool(file: Path, module: str, source: str) -> str:
    file.write_text(BUNDLE + f"tools: [{{module: {module}, source: '{source}'}}]\n")
    return str(file)


@pytest.mark.parametrize("form", ["bundle.yaml", "./bundle.yaml", ".", "file://{}/bundle.yaml", "{}"])
async def test_a_lock_is_found_by_every_name_of_its_bundle(
    home: Home, project: Path, tmp_path: Path, form: str
) -> None:
    """The lock that one run wrote is the one that the next run reads, however the bundle is named."""
    tool = _module(tmp_path / "tool", "tool-found")
    (project / "bundle.yaml").write_text(BUNDLE + f"tools: [{{module: tool-found, source: '{tool}'}}]\n")
    reference = form.format(project)
    await prepare(_options(home, project, bundle=reference))
    assert await prepare(_options(home, project, bundle=reference, locked=True))


async def test_a_lock_forbids_whatever_is_allowed(home: Home, project: Path, tmp_path: Path) -> None:
    """Content that is not what the lock says stops a run that may do without modules, and so does a missing pin."""
    tool = _module(tmp_path / "tool", "tool-f")
    (project / "bundle.yaml").write_text(BUNDLE + f"tools: [{{module: tool-f, source: '{tool}'}}]\n")
    with pytest.raises(FoundationError, match="not in the lock file"):
        await prepare(_options(home, project, bundle="bundle.yaml", locked=True, allow_missing=True))
    await prepare(_options(home, project, bundle="bundle.yaml"))
    lock = json.loads((project / "bundle.lock").read_text())
    lock["sources"][tool]["sha256"] = "0" * 64
    (project / "bundle.lock").write_text(json.dumps(lock))
    with pytest.raises(FoundationError, match="0000000000"):
        await prepare(_options(home, project, bundle="bundle.yaml", allow_missing=True))


async def test_a_source_is_fetched_once_for_bundle_and_modules(home: Home, project: Path, tmp_path: Path) -> None:
    """A bundle and a module of one repository are the same state of it, and are fetched once."""
    repository = tmp_path / "both"
    _module(repository / "modules" / "tool-both", "tool-both")
    # The repository of the module is a part of the one around it.
    shutil.rmtree(repository / "modules" / "tool-both" / ".git")
    uri = f"git+file://{repository}@main"
    inner = f"{uri}#subdirectory=modules/tool-both"
    _repository(repository, bundle__yaml=BUNDLE + f"tools: [{{module: tool-both, source: '{inner}'}}]\n")
    said: list[str] = []
    prepared = await prepare(_options(home, project, bundle=uri, update=True, on_progress=said.append))
    assert len([line for line in said if line.startswith("fetching")]) == 1
    assert prepared.composed.pins[uri] == prepared.composed.pins[inner]
