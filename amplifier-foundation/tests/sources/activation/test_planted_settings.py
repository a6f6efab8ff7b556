"""Installers follow the user's settings, wherever they are run from, and none that lie in a project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.activation import Activator, ModuleFolder

AddWheel = Callable[..., None]
MakeModule = Callable[..., ModuleFolder]


@pytest.fixture
def project(
    tmp_path: Path, wheels: Path, add_wheel: AddWheel, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Work in a project full of traps, with Amplifier's home in it; only the user's own settings name good wheels."""
    project = tmp_path / "project"
    evil = project / "evil"
    evil.mkdir(parents=True)
    add_wheel("leaf-of-tests", "9.9")
    (wheels / "leaf_of_tests-9.9-py3-none-any.whl").rename(evil / "leaf_of_tests-9.9-py3-none-any.whl")
    add_wheel("leaf-of-tests", "1.0")
    (project / "uv.toml").write_text(f'find-links = ["{evil}"]\n', encoding="utf-8")
    (project / "pip.conf").write_text(f"[global]\nfind-links = {evil}\n", encoding="utf-8")
    (project / "setup.cfg").write_text(f"[easy_install]\nfind_links = {evil}\n", encoding="utf-8")
    (project / ".python-version").write_text("2.7\n", encoding="utf-8")
    trap = f"open({str(project / 'planted')!r}, 'w').close()\n"
    for name in ("json.py", "sitecustomize.py", "usercustomize.py", "pip.py"):
        (project / name).write_text(trap, encoding="utf-8")
    (project / "uv").write_text(f"#!/bin/sh\ntouch '{project}/planted'\n", encoding="utf-8")
    (project / "uv").chmod(0o755)
    own = tmp_path / "settings"
    for name, text in {
        "uv/uv.toml": f'no-index = true\nfind-links = ["{wheels}"]\n',
        "pip/pip.conf": f"[global]\nno-index = true\nfind-links = {wheels}\n",
    }.items():
        (own / name).parent.mkdir(parents=True)
        (own / name).write_text(text, encoding="utf-8")
    for name in [name for name in environ if name.startswith(("UV_", "PIP_"))]:
        del environ[name]
    environ |= {"XDG_CONFIG_HOME": str(own), "PATH": f".::{project}", "PYTHONPATH": f":{project}:{project}/src"}
    monkeypatch.chdir(project)
    return project


@pytest.mark.parametrize("settings", ["uv.toml", "pyproject.toml"])
async def test_the_index_of_a_project_is_not_used(
    project: Path,
    environ: dict[str, str],
    make_module: MakeModule,
    settings: str,
) -> None:
    """What a module needs comes from where the user's settings say, not from where a file of the project says."""
    if settings == "pyproject.toml":
        (project / "uv.toml").unlink()
        text = f'[project]\nname = "x"\nversion = "1"\n[tool.uv]\nfind-links = ["{project}/evil"]\n'
        (project / "pyproject.toml").write_text(text, encoding="utf-8")
    home = Home(project / "home")
    activator = Activator(home, environ=environ)
    activated = await activator.activate([make_module("tool-leafy", ["leaf-of-tests"])])
    assert [path.name for path in activated.site_folders[-1].glob("leaf_of_tests-*")] == ["leaf_of_tests-1.0.dist-info"]
    assert not (project / "planted").exists()
