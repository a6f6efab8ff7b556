"""uv installs from the public address what the mirror serves, and is kept from asking the hosting service instead."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.profile.model import Repository
from amplifier_digital_twin.services.http_site import Answer, HttpSite, Question, plain

Git = Callable[..., str]
Serve = Callable[..., Awaitable[Any]]
URL = "https://github.com/example/sample"
UV = Path(sys.executable).parent / "uv"
NO_FAST_PATH = {"UV_NO_GITHUB_FAST_PATH": "true"}

#: A way to build that needs nothing from an index.
BACKEND = """
import os, zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "sample-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
        archive.write("sample.py")
        archive.writestr("sample-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: sample\\nVersion: 1.0\\n")
        facts = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        archive.writestr("sample-1.0.dist-info/WHEEL", facts)
        archive.writestr("sample-1.0.dist-info/RECORD", "sample.py,,\\n")
    return name
"""
PROJECT = """
[project]
name = "sample"
version = "1.0"
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""

pytestmark = pytest.mark.skipif(not UV.exists(), reason="uv is not installed beside this Python")


@pytest.fixture
def project(tmp_path: Path, git: Git) -> Path:
    """Make a repository with a package at its root and in a folder; the commit says `old`, the tree says `new`."""
    folder = tmp_path / "project"
    for place in (folder, folder / "packages" / "inner"):
        place.mkdir(parents=True)
        (place / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
        (place / "backend.py").write_text(BACKEND, encoding="utf-8")
        (place / "sample.py").write_text("WHAT = 'old'\n", encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "published")
    (folder / "sample.py").write_text("WHAT = 'new'\n", encoding="utf-8")
    (folder / "packages" / "inner" / "sample.py").write_text("WHAT = 'inner'\n", encoding="utf-8")
    return folder


async def install(served: Any, *what: str, variables: dict[str, str]) -> tuple[Path, str]:
    """Install into a new environment; return its site folder and what uv said."""
    environment = served.home / "venv"
    offline = {"UV_NO_INDEX": "1", "UV_CACHE_DIR": str(served.home / "cache"), "UV_NO_CONFIG": "1"}
    code, said = await served.run(str(UV), "venv", "-q", "--clear", "-p", sys.executable, str(environment))
    assert code == 0, said
    python = str(environment / "bin" / "python")
    code, said = await served.run(str(UV), "pip", "install", "-p", python, *what, variables=offline | variables)
    assert code == 0, said
    return next(environment.glob("lib/python*/site-packages")), said


def commit_of(site: Path) -> str:
    """Return the commit that uv says it installed."""
    content = (site / "sample-1.0.dist-info" / "direct_url.json").read_text(encoding="utf-8")
    return str(json.loads(content)["vcs_info"]["commit_id"])


@pytest.mark.parametrize("ref", ["", "@main", "@commit"])
async def test_install_from_the_public_address(serve: Serve, project: Path, ref: str) -> None:
    """The working tree, with what was never committed, is what `git+https://` installs."""
    served = await serve(Repository(project, URL))
    commit = served.mirror.commits[URL]["HEAD"]
    ref = f"@{commit}" if ref == "@commit" else ref
    site, _ = await install(served, f"git+{URL}{ref}", variables=NO_FAST_PATH)
    assert (site / "sample.py").read_text(encoding="utf-8") == "WHAT = 'new'\n"
    assert commit_of(site) == commit


async def test_install_of_a_folder(serve: Serve, project: Path) -> None:
    """A package in a folder of the repository is installed by `#subdirectory=`."""
    served = await serve(Repository(project, URL))
    site, _ = await install(served, f"git+{URL}@main#subdirectory=packages/inner", variables=NO_FAST_PATH)
    assert (site / "sample.py").read_text(encoding="utf-8") == "WHAT = 'inner'\n"


async def test_pip_installs_the_same(serve: Serve, project: Path) -> None:
    """pip installs the working tree from the public address too."""
    served = await serve(Repository(project, URL))
    target = served.home / "target"
    code, said = await served.run(
        *(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation"),
        *("--disable-pip-version-check", "--target", str(target), f"git+{URL}@main"),
        variables={"PIP_CONFIG_FILE": "/dev/null"},
    )
    if "No module named pip" in said:
        pytest.skip("pip is not installed in this environment")
    assert code == 0, said
    assert (target / "sample.py").read_text(encoding="utf-8") == "WHAT = 'new'\n"
    assert commit_of(target) == served.mirror.commits[URL]["HEAD"]


@pytest.fixture
async def hosting_service(project: Path, git: Git) -> AsyncIterator[tuple[str, list[str]]]:
    """Stand in for the hosting service's API: it says that `main` is at the published commit."""
    asked: list[str] = []
    published = git(project, "rev-parse", "HEAD")

    async def answer(question: Question) -> Answer:
        asked.append(question.path)
        return Answer(200, published.encode()) if question.path.endswith("/main") else plain(404, "unknown")

    site = HttpSite(answer)
    listening = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/repos"
    await site.serve(listening)
    yield address, asked
    await site.close()


async def test_uv_github_fast_path_pins_another_commit(
    serve: Serve, project: Path, hosting_service: tuple[str, list[str]]
) -> None:
    """Left to itself, uv asks the hosting service which commit `main` is, and installs that without a word."""
    address, asked = hosting_service
    served = await serve(Repository(project, URL))
    where = {"UV_GITHUB_FAST_PATH_URL": address, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    site, _ = await install(served, f"git+{URL}@main", variables=where)
    assert asked == ["/repos/example/sample/commits/main"]
    assert commit_of(site) != served.mirror.commits[URL]["refs/heads/main"]
    assert (site / "sample.py").read_text(encoding="utf-8") == "WHAT = 'old'\n"


async def test_without_the_fast_path_nobody_is_asked(
    serve: Serve, project: Path, hosting_service: tuple[str, list[str]]
) -> None:
    """With `UV_NO_GITHUB_FAST_PATH=true`, as universes set it, uv asks the mirror alone."""
    address, asked = hosting_service
    served = await serve(Repository(project, URL))
    where = {"UV_GITHUB_FAST_PATH_URL": address, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    site, _ = await install(served, f"git+{URL}@main", variables=where | NO_FAST_PATH)
    assert asked == []
    assert commit_of(site) == served.mirror.commits[URL]["refs/heads/main"]
    assert (site / "sample.py").read_text(encoding="utf-8") == "WHAT = 'new'\n"


async def test_many_clients_at_once(serve: Serve, project: Path) -> None:
    """More clients than git processes are all served."""
    served = await serve(Repository(project, URL))
    clones = [served.git("clone", "-q", URL, f"out{number}") for number in range(20)]
    await asyncio.gather(*clones)
    assert {(served.home / f"out{number}" / "sample.py").read_text(encoding="utf-8") for number in range(20)} == {
        "WHAT = 'new'\n"
    }
